//! ADK's web page, served from the directory of an installed google-adk. This server ships none of its files.

use super::{Json, json_response};
use crate::{
    error::ApiError,
    mount_path::MountPath,
    path_params::{FilePath, PathParams},
    state::ServerState,
    visible::PageAsset,
};
use axum::{
    Extension,
    body::{Body, Bytes},
    extract::State,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use futures::stream;
use serde_json::json;
use std::{
    fmt, fs, io,
    os::unix::fs::FileExt,
    path::{Component, Path, PathBuf},
    sync::OnceLock,
};

/// The route of the page.
const PAGE: &str = "/dev-ui/";
/// The size of a chunk of a file. A client that does not read holds one or two.
const CHUNK_BYTES: usize = 64 * 1024;

/// Locates the directory of the page when it is first needed.
pub(crate) struct DevUi {
    locate: Box<dyn Fn() -> Option<PathBuf> + Send + Sync>,
    directory: OnceLock<Option<PathBuf>>,
}

impl DevUi {
    pub(crate) fn new(locate: impl Fn() -> Option<PathBuf> + Send + Sync + 'static) -> Self {
        Self { locate: Box::new(locate), directory: OnceLock::new() }
    }

    fn directory(&self) -> Option<&Path> {
        self.directory.get_or_init(|| (self.locate)()).as_deref()
    }

    pub(crate) fn is_installed(&self) -> bool {
        self.directory().is_some_and(|directory| directory.join("index.html").is_file())
    }

    /// Finds a file of the page. No name reaches a file outside the directory.
    fn find(&self, name: &str) -> Result<PageFile, ApiError> {
        let Some(directory) = self.directory() else {
            return Err(ApiError::not_found(
                "ADK's web page is not installed: install google-adk, or pass its directory with --dev-ui",
            ));
        };
        let not_found = || ApiError::not_found("Not Found");
        let name = if name.is_empty() { "index.html" } else { name };
        let is_inside = Path::new(name).components().all(|part| matches!(part, Component::Normal(_)));
        if !is_inside || name.contains(['\\', '\0']) {
            return Err(not_found());
        }
        let path = directory.join(name).canonicalize().map_err(|_| not_found())?;
        let directory = directory.canonicalize().map_err(|_| not_found())?;
        if !path.starts_with(directory) || !path.is_file() {
            return Err(not_found());
        }
        // A file that cannot be opened is not found.
        let metadata = fs::File::open(&path).and_then(|file| file.metadata()).map_err(|_| not_found())?;
        Ok(PageFile { size: metadata.len(), path })
    }
}

/// A file of the page.
#[derive(Debug)]
struct PageFile {
    path: PathBuf,
    size: u64,
}

impl PageFile {
    /// The chunk at an offset; `None` at the end. The file is opened for each chunk: a client that does not read holds no
    /// file descriptor.
    fn chunk(&self, offset: u64) -> io::Result<Option<Bytes>> {
        let left = usize::try_from(self.size - offset).unwrap_or(usize::MAX);
        if left == 0 {
            return Ok(None);
        }
        let mut chunk = vec![0; left.min(CHUNK_BYTES)];
        fs::File::open(&self.path)?.read_exact_at(&mut chunk, offset)?;
        Ok(Some(chunk.into()))
    }

    fn into_response(self) -> Response {
        let headers = [
            (header::CONTENT_TYPE, HeaderValue::from_static(content_type(&self.path))),
            (header::CONTENT_LENGTH, HeaderValue::from(self.size)),
        ];
        let chunks = stream::try_unfold((self, 0), |(file, offset)| async move {
            let read = tokio::task::spawn_blocking(move || (file.chunk(offset), file)).await;
            let (chunk, file) = read.map_err(io::Error::other)?;
            Ok::<_, io::Error>(chunk?.map(|chunk| {
                let end = offset + chunk.len() as u64;
                (chunk, (file, end))
            }))
        });
        (Extension(PageAsset), headers, Body::from_stream(chunks)).into_response()
    }
}

impl fmt::Debug for DevUi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DevUi").field("directory", &self.directory).finish_non_exhaustive()
    }
}

fn content_type(path: &Path) -> &'static str {
    match path.extension().and_then(|extension| extension.to_str()).unwrap_or_default() {
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
    PathParams(FilePath { path }): PathParams<FilePath>,
) -> Result<Response, ApiError> {
    let found = tokio::task::spawn_blocking(move || server.dev_ui.find(&path)).await;
    let failed = |_| ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "the file cannot be read");
    Ok(found.map_err(failed)??.into_response())
}

/// Redirects to the page.
pub(crate) async fn redirect(mount: MountPath) -> Response {
    (StatusCode::TEMPORARY_REDIRECT, [(header::LOCATION, mount.join(PAGE))]).into_response()
}

/// The configuration that the page loads first. `backendUrl` is the prefix of its requests.
pub(crate) async fn runtime_config(mount: MountPath) -> Response {
    let mut response = Json(json!({"backendUrl": mount.prefix(), "telemetry": null})).into_response();
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

pub(crate) async fn config() -> Response {
    json_response(r#"{"logo_text":null,"logo_image_url":null}"#)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_reaches_a_file_outside_the_directory() {
        let temp = tempfile::tempdir().unwrap();
        let directory = temp.path().join("browser");
        fs::create_dir_all(directory.join("assets")).unwrap();
        fs::write(temp.path().join("secret"), "s").unwrap();
        fs::write(directory.join("index.html"), "page").unwrap();
        fs::write(directory.join("assets/a.js"), "js").unwrap();
        std::os::unix::fs::symlink(temp.path().join("secret"), directory.join("link")).unwrap();
        let page = DevUi::new(move || Some(directory.clone()));
        assert_eq!(content_type(&page.find("").unwrap().path), "text/html; charset=utf-8");
        assert_eq!(page.find("assets/a.js").unwrap().chunk(0).unwrap().unwrap(), b"js"[..]);
        for name in
            ["../secret", "assets/../../secret", "/etc/passwd", "link", "assets", "nope", "a\\..\\b", "."]
        {
            assert_eq!(page.find(name).unwrap_err().status, StatusCode::NOT_FOUND, "{name}");
        }
    }

    #[tokio::test]
    async fn a_file_is_sent_whole_in_chunks() {
        let temp = tempfile::tempdir().unwrap();
        for size in [0, 1, CHUNK_BYTES, CHUNK_BYTES + 1] {
            let content: Vec<u8> = (0..=250).cycle().take(size).collect();
            fs::write(temp.path().join("a.js"), &content).unwrap();
            let directory = temp.path().to_owned();
            let response = DevUi::new(move || Some(directory.clone())).find("a.js").unwrap().into_response();
            assert_eq!(response.headers()[header::CONTENT_LENGTH], size.to_string());
            let body = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap();
            assert!(body == content, "{size}");
        }
    }
}
