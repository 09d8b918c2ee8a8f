//! Artifacts: versions, metadata, names.

use super::test_app::TestApp;
use serde_json::json;

#[tokio::test]
async fn an_artifact_has_versions_with_metadata_until_it_is_deleted() {
    let app = TestApp::new();
    let artifacts = format!("{}/artifacts", app.create_session().await);
    for (version, text) in ["one", "two"].into_iter().enumerate() {
        let body =
            json!({"filename": "dir/a.txt", "artifact": {"text": text}, "custom_metadata": {"n": version}});
        let saved = app.post(&artifacts).json(&body).send().await.expect_status(200).json();
        assert_eq!((&saved["version"], &saved["customMetadata"]), (&json!(version), &json!({"n": version})));
    }
    assert_eq!(app.get(&artifacts).send().await.expect_status(200).json(), json!(["dir/a.txt"]));
    let file = format!("{artifacts}/dir/a.txt");
    for (suffix, text) in
        [("", "two"), ("?version=0", "one"), ("/versions/0", "one"), ("/versions/latest", "two")]
    {
        let part = app.get(&format!("{file}{suffix}")).send().await.expect_status(200).json();
        assert_eq!(part["text"], text, "{suffix}");
    }
    assert_eq!(app.get(&format!("{file}/versions")).send().await.expect_status(200).json(), json!([0, 1]));
    let metadata = app.get(&format!("{file}/versions/metadata")).send().await.expect_status(200).json();
    assert_eq!(metadata[1]["customMetadata"], json!({"n": 1}));
    let metadata = app.get(&format!("{file}/versions/0/metadata")).send().await.expect_status(200).json();
    assert_eq!(metadata["version"], 0);

    app.delete(&file).send().await.expect_status(200);
    assert_eq!(app.get(&file).send().await.expect_status(404).detail(), "Artifact not found");
}

#[tokio::test]
async fn invalid_artifacts_are_refused() {
    let app = TestApp::new();
    let artifacts = format!("{}/artifacts", app.create_session().await);
    for (name, artifact, detail) in [
        ("", json!({"text": "t"}), "Artifact filename must not be empty."),
        ("../a", json!({"text": "t"}), "Artifact filename '../a' must not contain parent traversal."),
        (
            "user:../a",
            json!({"text": "t"}),
            "Artifact filename 'user:../a' must not contain parent traversal.",
        ),
        ("user:", json!({"text": "t"}), "Artifact filename must not be empty."),
        ("a\nb", json!({"text": "t"}), "Artifact filename must not contain control characters."),
        (&*"n".repeat(1025), json!({"text": "t"}), "Artifact filename must not be longer than 1024 bytes."),
        ("a", json!({}), "Artifact must have either inline_data or text content."),
    ] {
        let body = json!({"filename": name, "artifact": artifact});
        assert_eq!(app.post(&artifacts).json(&body).send().await.expect_status(400).detail(), detail);
    }
    let body = json!({"filename": "a", "artifact": {"inlineData": {"data": "@@@", "mimeType": "image/png"}}});
    let invalid = app.post(&artifacts).json(&body).send().await.expect_status(422);
    assert_eq!(invalid.validation_errors(), ["bytes_invalid_encoding body.artifact.inlineData.data"]);
    let version = app.get(&format!("{artifacts}/a/versions/x")).send().await.expect_status(422);
    assert_eq!(version.detail(), "Invalid version ID");
}

#[tokio::test]
async fn an_artifact_is_saved_only_in_a_session_that_exists() {
    let app = TestApp::new();
    let session = app.create_session().await;
    let body = json!({"filename": "a", "artifact": {"text": "t"}});
    let other = format!("{session}-other/artifacts");
    app.post(&other).json(&body).send().await.expect_status(404);
    assert_eq!(app.get(&other).send().await.expect_status(200).json(), json!([]));
    app.delete(session).send().await.expect_status(200);
    app.post(&format!("{session}/artifacts")).json(&body).send().await.expect_status(404);
}
