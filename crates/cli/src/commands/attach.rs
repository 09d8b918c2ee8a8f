//! Files that are attached to a message.

use adk::content::{Blob, Part};
use anyhow::{Context, bail};
use base64::{Engine, engine::general_purpose::STANDARD};
use std::{fs, path::Path};

/// The size limit of providers. A larger file would be rejected after the upload.
const MAX_BYTES: u64 = 20 << 20;

/// A file as a part of a message: text with a heading that names the file, other types as inline data.
pub(crate) fn part(path: &Path) -> anyhow::Result<Part> {
    let unread = || format!("{} cannot be read; it was not sent", path.display());
    let size = fs::metadata(path).with_context(unread)?.len();
    if size > MAX_BYTES {
        bail!("{} has {} MB; at most {} MB can be sent", path.display(), size >> 20, MAX_BYTES >> 20);
    }
    let bytes = fs::read(path).with_context(unread)?;
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
    match (mime_type(path), String::from_utf8(bytes)) {
        (None, Ok(text)) if !text.contains('\0') => Ok(Part::text(format!("The file {name}:\n{text}"))),
        (None, _) => {
            bail!(
                "{} is not text, and its type is not supported; images, PDF, audio and text can be sent",
                path.display()
            )
        }
        (Some(kind), text) => {
            let bytes = text.map_or_else(std::string::FromUtf8Error::into_bytes, String::into_bytes);
            let blob = Blob {
                data: STANDARD.encode(bytes),
                display_name: Some(name),
                mime_type: Some(kind.to_owned()),
                ..Blob::default()
            };
            Ok(Part::from(blob))
        }
    }
}

fn mime_type(path: &Path) -> Option<&'static str> {
    let extension = path.extension()?.to_str()?.to_ascii_lowercase();
    Some(match extension.as_str() {
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        "webp" => "image/webp",
        "pdf" => "application/pdf",
        "wav" => "audio/wav",
        "mp3" => "audio/mpeg",
        "mp4" => "video/mp4",
        _ => return None,
    })
}
