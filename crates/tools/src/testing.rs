//! A [`ToolHost`] for tests that records state, artifacts and progress.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use futures::{FutureExt, future::BoxFuture};
use serde_json::{Map, Value};
use tokio::sync::Notify;

use crate::{
    AppUser, ArtifactFile, CallingTurn, SandboxAccess, SandboxProfile, Tool, ToolHost, ToolReply,
    ToolRequest, ToolsError,
};

#[derive(Default)]
pub(crate) struct RecordingHost {
    pub(crate) state: Mutex<BTreeMap<String, Value>>,
    pub(crate) artifacts: Mutex<Vec<(String, ArtifactFile)>>,
    pub(crate) progress: Mutex<Vec<String>>,
    pub(crate) cancelled: bool,
    /// Cancels calls in progress.
    pub(crate) cancel: Notify,
    pub(crate) owner: AppUser,
}

impl ToolHost for RecordingHost {
    fn state(&self, key: &str) -> Option<Value> {
        self.state.lock().unwrap().get(key).cloned()
    }

    fn set_state(&self, key: &str, value: Value) {
        self.state.lock().unwrap().insert(key.to_owned(), value);
    }

    fn save_artifact(&self, name: String, file: ArtifactFile) -> BoxFuture<'_, Result<u64, ToolsError>> {
        async move {
            let mut artifacts = self.artifacts.lock().unwrap();
            let version = artifacts.iter().filter(|(known, _)| *known == name).count();
            artifacts.push((name, file));
            Ok(version as u64)
        }
        .boxed()
    }

    fn progress(&self, text: &str) {
        self.progress.lock().unwrap().push(text.to_owned());
    }

    fn owner(&self) -> AppUser {
        self.owner.clone()
    }

    fn cancelled(&self) -> BoxFuture<'_, ()> {
        if self.cancelled { futures::future::ready(()).boxed() } else { self.cancel.notified().boxed() }
    }
}

pub(crate) fn request(host: &Arc<RecordingHost>, args: Value) -> ToolRequest {
    let args = match args {
        Value::Object(args) => args,
        other => Map::from_iter([("value".to_owned(), other)]),
    };
    let sandbox = SandboxAccess { profile: SandboxProfile::Workspace, protected: Vec::new() };
    let turn = CallingTurn { scope: "session".to_owned(), ..CallingTurn::default() };
    ToolRequest { id: "call-1".to_owned(), args, turn, host: host.clone(), sandbox, input: None }
}

/// Calls a tool with a new host and returns its value, or the error text that the model would read.
pub(crate) async fn call_tool(tool: &dyn Tool, args: Value) -> Result<Value, String> {
    match tool.call(request(&Arc::default(), args)).await {
        Ok(ToolReply::Done(value) | ToolReply::Untrusted { value, .. }) => Ok(value),
        Ok(ToolReply::Pending(value)) => Err(format!("pending: {value:?}")),
        Ok(ToolReply::Ask(question)) => Err(format!("question: {}", question.message)),
        Err(error) => Err(error.to_string()),
    }
}
