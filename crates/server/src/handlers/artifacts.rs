//! Files of a session, in versions.

use super::{Json, null};
use crate::{
    error::ApiError,
    input::{QueryParams, RequestBody, bodies},
    path_params::{PathParams, SessionPath},
    state::ServerState,
};
use adk::{
    content::{Data, Part},
    session::SessionKey,
};
use axum::{
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use bridge::archive::Version;
use serde_json::{Value, json};

pub(crate) async fn list(
    State(server): State<ServerState>,
    SessionPath(key): SessionPath,
) -> Result<Response, ApiError> {
    Ok(Json(server.archive.files(&key).await?).into_response())
}

pub(crate) async fn save(
    State(server): State<ServerState>,
    SessionPath(key): SessionPath,
    sent: RequestBody,
) -> Result<Response, ApiError> {
    let mut fields = sent.required(&bodies::SAVE_ARTIFACT)?;
    let name = fields.text("filename").unwrap_or_default();
    let part: Part = fields.read("artifact")?.unwrap_or_default();
    let metadata = fields.map("customMetadata").unwrap_or_default();
    check_name(&name)?;
    if !matches!(part.data, Data::InlineData(_) | Data::Text(_)) {
        return Err(ApiError::bad_request("Artifact must have either inline_data or text content."));
    }
    let number = server.archive.save_file(&key, &name, &part, &metadata).await?;
    let saved = server.archive.file(&key, &name, Some(number)).await?;
    let (_, version) = saved.ok_or_else(not_found)?;
    Ok(Json(described(&key, &name, &version)).into_response())
}

/// Names are names here and not paths; still, what looks like a way out is refused, as ADK does.
fn check_name(name: &str) -> Result<(), ApiError> {
    if name.is_empty() {
        return Err(ApiError::bad_request("Artifact filename must not be empty."));
    }
    if name.split(['/', '\\']).any(|piece| piece == "..") {
        let told = format!("Artifact filename '{name}' must not contain parent traversal.");
        return Err(ApiError::bad_request(told));
    }
    Ok(())
}

/// A name may have slashes in it: what a path asks for shows at its end.
enum ArtifactResource<'a> {
    File,
    Versions,
    AllMetadata,
    Version(&'a str),
    Metadata(&'a str),
}

fn asked(path: &str) -> (&str, ArtifactResource<'_>) {
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
    SessionPath(key): SessionPath,
    params: PathParams,
    query: QueryParams,
) -> Result<Response, ApiError> {
    let (name, asked) = asked(params.get("path"));
    match asked {
        ArtifactResource::File => file(&server, &key, name, query.number("version")?).await,
        ArtifactResource::Version(version) => file(&server, &key, name, number(version)?).await,
        ArtifactResource::Versions => Ok(Json(server.archive.versions(&key, name).await?).into_response()),
        ArtifactResource::Metadata(version) => {
            let found = server.archive.file(&key, name, number(version)?).await?;
            let (_, version) = found.ok_or_else(|| ApiError::not_found("Artifact version not found"))?;
            Ok(Json(described(&key, name, &version)).into_response())
        }
        ArtifactResource::AllMetadata => {
            let mut all = Vec::new();
            for number in server.archive.versions(&key, name).await? {
                let found = server.archive.file(&key, name, Some(number)).await?;
                all.extend(found.map(|(_, version)| described(&key, name, &version)));
            }
            Ok(Json(all).into_response())
        }
    }
}

async fn file(
    server: &ServerState,
    key: &SessionKey,
    name: &str,
    version: Option<u64>,
) -> Result<Response, ApiError> {
    let found = server.archive.file(key, name, version).await?;
    let (part, _) = found.ok_or_else(not_found)?;
    Ok(Json(part).into_response())
}

/// `None` for the newest.
fn number(version: &str) -> Result<Option<u64>, ApiError> {
    if version == "latest" {
        return Ok(None);
    }
    let wrong = |_| ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid version ID");
    version.parse().map(Some).map_err(wrong)
}

fn not_found() -> ApiError {
    ApiError::not_found("Artifact not found")
}

fn described(key: &SessionKey, name: &str, version: &Version) -> Value {
    let SessionKey { app_name, user_id, session_id } = key;
    let session = if name.starts_with("user:") { String::new() } else { format!("/sessions/{session_id}") };
    let number = version.number;
    let mut described = json!({
        "version": number,
        "canonicalUri": format!("lango://apps/{app_name}/users/{user_id}{session}/artifacts/{name}/versions/{number}"),
        "customMetadata": version.custom_metadata,
        "createTime": version.created_at,
    });
    if let Some(kind) = &version.mime_type {
        described["mimeType"] = kind.as_str().into();
    }
    described
}

pub(crate) async fn delete(
    State(server): State<ServerState>,
    SessionPath(key): SessionPath,
    params: PathParams,
) -> Result<Response, ApiError> {
    server.archive.remove_file(&key, params.get("path")).await?;
    Ok(null())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_shows_at_the_end_of_the_path() {
        let table = [
            ("a.txt", "a.txt: the file"),
            ("dir/a.txt", "dir/a.txt: the file"),
            ("dir/a.txt/versions", "dir/a.txt: its versions"),
            ("a/versions/metadata", "a: all about them"),
            ("a/versions/3", "a: version 3"),
            ("a/versions/latest/metadata", "a: about version latest"),
            ("a/versions/b/c", "a/versions/b/c: the file"),
            ("a/metadata", "a/metadata: the file"),
        ];
        for (path, meant) in table {
            let (name, asked) = asked(path);
            let what = match asked {
                ArtifactResource::File => "the file".to_owned(),
                ArtifactResource::Versions => "its versions".to_owned(),
                ArtifactResource::AllMetadata => "all about them".to_owned(),
                ArtifactResource::Version(version) => format!("version {version}"),
                ArtifactResource::Metadata(version) => format!("about version {version}"),
            };
            assert_eq!(format!("{name}: {what}"), meant, "{path}");
        }
    }
}
