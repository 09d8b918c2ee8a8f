//! Artifacts: the versioned files of a session.

use super::{Json, json_response, null_response, run::require_session};
use crate::{
    error::ApiError,
    input::{QueryParams, RequestBody, bodies::SaveArtifactBody},
    path_params::{ArtifactPath, PathParams, SessionPath},
    state::ServerState,
    visible::{BrowserRequest, visible_text},
};
use adk::{
    content::{Data, Part},
    session::SessionKey,
};
use axum::{
    Extension,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use bridge::store::archive::ArtifactVersion;
use serde_json::{Value, json};

pub(crate) async fn list(
    State(server): State<ServerState>,
    PathParams(path): PathParams<SessionPath>,
) -> Result<Response, ApiError> {
    Ok(Json(server.archive.files(&path.key()).await?).into_response())
}

pub(crate) async fn save(
    State(server): State<ServerState>,
    PathParams(path): PathParams<SessionPath>,
    body: RequestBody,
) -> Result<Response, ApiError> {
    let (SaveArtifactBody { filename: name, artifact, custom_metadata }, _charge) = body.required()?;
    check_name(&name)?;
    if !matches!(artifact.data, Data::InlineData(_) | Data::Text(_)) {
        return Err(ApiError::bad_request("Artifact must have either inline_data or text content."));
    }
    let key = path.key();
    server.require_app(&key.app_name)?;
    // Unlike ADK: a file without its session would be in no list and in no quota, and nothing would delete it.
    require_session(&server, &key).await?;
    let metadata = custom_metadata.unwrap_or_default();
    let number = server.archive.save_file(&key, &name, &artifact, &metadata).await?;
    let version = server.archive.file_metadata(&key, &name, Some(number)).await?;
    Ok(Json(version_json(&key, &name, &version.ok_or_else(artifact_not_found)?)).into_response())
}

const MAX_NAME_BYTES: usize = 1024;

/// Names are keys and never become file paths. Parent traversal is refused all the same, as in ADK. The prefix `user:` is not
/// part of the name.
fn check_name(name: &str) -> Result<(), ApiError> {
    let path = name.strip_prefix("user:").unwrap_or(name);
    if path.is_empty() {
        return Err(ApiError::bad_request("Artifact filename must not be empty."));
    }
    if name.len() > MAX_NAME_BYTES {
        let detail = format!("Artifact filename must not be longer than {MAX_NAME_BYTES} bytes.");
        return Err(ApiError::bad_request(detail));
    }
    if name.contains(char::is_control) {
        return Err(ApiError::bad_request("Artifact filename must not contain control characters."));
    }
    if path.split(['/', '\\']).any(|segment| segment == "..") {
        let detail = format!("Artifact filename '{name}' must not contain parent traversal.");
        return Err(ApiError::bad_request(detail));
    }
    Ok(())
}

/// The resource that a path below `artifacts/` names.
enum ArtifactResource<'a> {
    File,
    Versions,
    AllMetadata,
    Version(&'a str),
    Metadata(&'a str),
}

/// Splits a path into the name of the artifact and the resource. A name may contain slashes, so the suffix decides.
fn parse_resource(path: &str) -> (&str, ArtifactResource<'_>) {
    if let Some(name) = path.strip_suffix("/versions/metadata") {
        return (name, ArtifactResource::AllMetadata);
    }
    if let Some(name) = path.strip_suffix("/versions") {
        return (name, ArtifactResource::Versions);
    }
    let (inner, metadata) = path.strip_suffix("/metadata").map_or((path, false), |inner| (inner, true));
    match inner.rsplit_once("/versions/") {
        Some((name, version)) if !version.contains('/') => (
            name,
            if metadata { ArtifactResource::Metadata(version) } else { ArtifactResource::Version(version) },
        ),
        Some(_) | None => (path, ArtifactResource::File),
    }
}

pub(crate) async fn get(
    State(server): State<ServerState>,
    PathParams(path): PathParams<ArtifactPath>,
    page: Option<Extension<BrowserRequest>>,
    query: QueryParams,
) -> Result<Response, ApiError> {
    let key = path.session.key();
    let (name, resource) = parse_resource(&path.path);
    match resource {
        ArtifactResource::File => get_file(&server, (&key, name, query.number("version")?), page).await,
        ArtifactResource::Version(version) => {
            get_file(&server, (&key, name, parse_version(version)?), page).await
        }
        ArtifactResource::Versions => Ok(Json(server.archive.versions(&key, name).await?).into_response()),
        ArtifactResource::Metadata(version) => {
            let found = server.archive.file_metadata(&key, name, parse_version(version)?).await?;
            let version = found.ok_or_else(|| ApiError::not_found("Artifact version not found"))?;
            Ok(Json(version_json(&key, name, &version)).into_response())
        }
        ArtifactResource::AllMetadata => {
            let mut all = Vec::new();
            for number in server.archive.versions(&key, name).await? {
                let found = server.archive.file_metadata(&key, name, Some(number)).await?;
                all.extend(found.map(|version| version_json(&key, name, &version)));
            }
            Ok(Json(all).into_response())
        }
    }
}

/// A version of a file; the newest if none is named. A page decodes and shows a text file.
async fn get_file(
    server: &ServerState,
    (key, name, version): (&SessionKey, &str, Option<u64>),
    page: Option<Extension<BrowserRequest>>,
) -> Result<Response, ApiError> {
    let load = || async {
        let found = server.archive.file(key, name, version).await?;
        let (mut part, _) = found.ok_or_else(artifact_not_found)?;
        if page.is_some() {
            show_invisible(&mut part);
        }
        Ok::<_, ApiError>((serde_json::to_vec(&part)?, ()))
    };
    let (body, ()) = server.response_budget.load(&key.user_id, load).await?;
    Ok(json_response(body))
}

/// Shows invisible characters of a text file, whose base64 hides them from the filter of responses.
fn show_invisible(part: &mut Part) {
    let text = part.to_text();
    if let (Data::InlineData(blob), Some(text)) = (&mut part.data, text.as_deref().and_then(visible_text)) {
        blob.data = BASE64.encode(text);
    }
}

/// A version number, or `None` for `latest`.
fn parse_version(version: &str) -> Result<Option<u64>, ApiError> {
    if version == "latest" {
        return Ok(None);
    }
    let invalid = |_| ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid version ID");
    version.parse().map(Some).map_err(invalid)
}

fn artifact_not_found() -> ApiError {
    ApiError::not_found("Artifact not found")
}

fn version_json(key: &SessionKey, name: &str, version: &ArtifactVersion) -> Value {
    let SessionKey { app_name, user_id, session_id } = key;
    let session = if name.starts_with("user:") { String::new() } else { format!("/sessions/{session_id}") };
    let number = version.number;
    let mut json = json!({
        "version": number,
        "canonicalUri": format!("lango://apps/{app_name}/users/{user_id}{session}/artifacts/{name}/versions/{number}"),
        "customMetadata": version.custom_metadata,
        "createTime": version.created_at,
    });
    if let Some(mime_type) = &version.mime_type {
        json["mimeType"] = mime_type.as_str().into();
    }
    json
}

pub(crate) async fn delete(
    State(server): State<ServerState>,
    PathParams(path): PathParams<ArtifactPath>,
) -> Result<Response, ApiError> {
    server.archive.remove_file(&path.session.key(), &path.path).await?;
    Ok(null_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_suffix_of_a_path_selects_the_resource() {
        let table = [
            ("a.txt", "a.txt: file"),
            ("dir/a.txt", "dir/a.txt: file"),
            ("dir/a.txt/versions", "dir/a.txt: versions"),
            ("a/versions/metadata", "a: all metadata"),
            ("a/versions/3", "a: version 3"),
            ("a/versions/latest/metadata", "a: metadata of version latest"),
            ("a/versions/b/c", "a/versions/b/c: file"),
            ("a/metadata", "a/metadata: file"),
        ];
        for (path, expected) in table {
            let (name, resource) = parse_resource(path);
            let resource = match resource {
                ArtifactResource::File => "file".to_owned(),
                ArtifactResource::Versions => "versions".to_owned(),
                ArtifactResource::AllMetadata => "all metadata".to_owned(),
                ArtifactResource::Version(version) => format!("version {version}"),
                ArtifactResource::Metadata(version) => format!("metadata of version {version}"),
            };
            assert_eq!(format!("{name}: {resource}"), expected, "{path}");
        }
    }
}
