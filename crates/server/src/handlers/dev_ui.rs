//! ADK's own web page, from a folder of an installed google-adk. Nothing of it is ours.

use crate::{error::ApiError, path_params::PathParams, state::ServerState};
use axum::{
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use std::{
    fmt, fs,
    path::{Component, Path, PathBuf},
    sync::OnceLock,
};

/// Finds the folder, when somebody asks for the first time.
pub(crate) struct DevUi {
    find: Box<dyn Fn() -> Option<PathBuf> + Send + Sync>,
    folder: OnceLock<Option<PathBuf>>,
}

impl DevUi {
    pub(crate) fn new(find: impl Fn() -> Option<PathBuf> + Send + Sync + 'static) -> Self {
        Self { find: Box::new(find), folder: OnceLock::new() }
    }

    fn folder(&self) -> Option<&Path> {
        self.folder.get_or_init(|| (self.find)()).as_deref()
    }

    /// A file of the page: nothing outside of its folder, whatever the name says.
    fn file(&self, name: &str) -> Result<(Vec<u8>, &'static str), ApiError> {
        let Some(folder) = self.folder() else {
            return Err(ApiError::not_found(
                "ADK's web page is not here: install google-adk, or name its folder with --dev-ui",
            ));
        };
        let not_found = || ApiError::not_found("Not Found");
        let name = if name.is_empty() { "index.html" } else { name };
        let is_inside = Path::new(name).components().all(|piece| matches!(piece, Component::Normal(_)));
        if !is_inside || name.contains(['\\', '\0']) {
            return Err(not_found());
        }
        let path = folder.join(name).canonicalize().map_err(|_| not_found())?;
        let folder = folder.canonicalize().map_err(|_| not_found())?;
        if !path.starts_with(folder) || !path.is_file() {
            return Err(not_found());
        }
        Ok((fs::read(&path).map_err(|_| not_found())?, kind(&path)))
    }
}

impl fmt::Debug for DevUi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DevUi").field("folder", &self.folder).finish_non_exhaustive()
    }
}

fn kind(path: &Path) -> &'static str {
    match path.extension().and_then(|end| end.to_str()).unwrap_or_default() {
        "html" => "text/html; charset=utf-8",
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "json" | "map" => "application/json",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        "ico" => "image/x-icon",
        "woff2" => "font/woff2",
        "woff" => "font/woff",
        "wasm" => "application/wasm",
        "txt" | "md" => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}

pub(crate) async fn file(
    State(server): State<ServerState>,
    params: PathParams,
) -> Result<Response, ApiError> {
    let name = params.get("path").to_owned();
    let read = tokio::task::spawn_blocking(move || server.page.file(&name)).await;
    let lost = |_| ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "the file cannot be read");
    let (bytes, kind) = read.map_err(lost)??;
    Ok(([(header::CONTENT_TYPE, kind)], bytes).into_response())
}

/// To the page.
pub(crate) async fn redirect() -> Response {
    (StatusCode::TEMPORARY_REDIRECT, [(header::LOCATION, "/dev-ui/")]).into_response()
}

pub(crate) async fn runtime_config() -> Response {
    let mut response = super::json(r#"{"backendUrl":"","telemetry":null}"#);
    response.headers_mut().insert(header::CACHE_CONTROL, header::HeaderValue::from_static("no-store"));
    response
}

pub(crate) async fn config() -> Response {
    super::json(r#"{"logo_text":null,"logo_image_url":null}"#)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_leads_out_of_the_folder() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("browser");
        fs::create_dir_all(folder.join("assets")).unwrap();
        fs::write(place.path().join("secret"), "s").unwrap();
        fs::write(folder.join("index.html"), "page").unwrap();
        fs::write(folder.join("assets/a.js"), "js").unwrap();
        std::os::unix::fs::symlink(place.path().join("secret"), folder.join("link")).unwrap();
        let page = DevUi::new(move || Some(folder.clone()));
        assert_eq!(page.file("").unwrap().1, "text/html; charset=utf-8");
        assert_eq!(page.file("assets/a.js").unwrap().0, b"js");
        for name in
            ["../secret", "assets/../../secret", "/etc/passwd", "link", "assets", "nope", "a\\..\\b", "."]
        {
            assert_eq!(page.file(name).unwrap_err().status, StatusCode::NOT_FOUND, "{name}");
        }
    }
}
