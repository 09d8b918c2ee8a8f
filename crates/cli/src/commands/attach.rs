//! Files that go along with a message.

use adk::content::{Blob, Part};
use anyhow::{Context, bail};
use base64::{Engine, engine::general_purpose::STANDARD};
use std::{fs, path::Path};

/// What providers take at most; a larger file would be refused after it was sent.
const LARGEST: u64 = 20 << 20;

/// A file as a part of a message: text as text, under its name, and anything else as it is.
pub(crate) fn part(path: &Path) -> anyhow::Result<Part> {
    let unread = || format!("{} cannot be read; it was not sent", path.display());
    let size = fs::metadata(path).with_context(unread)?.len();
    if size > LARGEST {
        bail!("{} has {} MB; at most {} MB can be sent", path.display(), size >> 20, LARGEST >> 20);
    }
    let bytes = fs::read(path).with_context(unread)?;
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
    match (mime_type(path), String::from_utf8(bytes)) {
        (None, Ok(text)) => Ok(Part::text(format!("The file {name}:\n{text}"))),
        (None, Err(_)) => {
            bail!(
                "{} is no text, and of a kind that no model is shown; images, PDF, audio and text can be sent",
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
    let ending = path.extension()?.to_str()?.to_ascii_lowercase();
    Some(match ending.as_str() {
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
