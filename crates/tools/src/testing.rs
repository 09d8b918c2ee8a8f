//! A host for tests: it remembers what tools did to it.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use futures::{FutureExt, future::BoxFuture};
use serde_json::{Map, Value};

use crate::{Call, Error, File, Host, Outcome, Owner, Tool};

#[derive(Default)]
pub(crate) struct Recorder {
    pub(crate) state: Mutex<BTreeMap<String, Value>>,
    pub(crate) artifacts: Mutex<Vec<(String, File)>>,
    pub(crate) progress: Mutex<Vec<String>>,
    pub(crate) stopped: bool,
    pub(crate) owner: Owner,
}

impl Host for Recorder {
    fn state(&self, key: &str) -> Option<Value> {
        self.state.lock().unwrap().get(key).cloned()
    }

    fn set_state(&self, key: &str, value: Value) {
        self.state.lock().unwrap().insert(key.to_owned(), value);
    }

    fn save_artifact(&self, name: String, file: File) -> BoxFuture<'_, Result<u64, Error>> {
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

    fn owner(&self) -> Owner {
        self.owner.clone()
    }

    fn cancelled(&self) -> BoxFuture<'_, ()> {
        if self.stopped { futures::future::ready(()).boxed() } else { futures::future::pending().boxed() }
    }
}

pub(crate) fn call(host: &Arc<Recorder>, args: Value) -> Call {
    let args = match args {
        Value::Object(args) => args,
        other => Map::from_iter([("value".to_owned(), other)]),
    };
    Call { id: "call-1".to_owned(), args, host: host.clone() }
}

/// Calls a tool with a fresh host, and gives the value or the text that the model would read.
pub(crate) async fn ask(tool: &dyn Tool, args: Value) -> Result<Value, String> {
    match tool.call(call(&Arc::default(), args)).await {
        Ok(Outcome::Done(value)) => Ok(value),
        Ok(Outcome::Pending(value)) => Err(format!("pending: {value:?}")),
        Err(error) => Err(error.to_string()),
    }
}
