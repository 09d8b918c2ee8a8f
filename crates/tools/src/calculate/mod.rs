//! `calculate`: arithmetic as people write it, exact as long as 128 bits hold it.

use futures::future::BoxFuture;
use serde::Deserialize;
use serde_json::json;

use crate::{Call, Error, Outcome, Spec, Tool, args};

mod fault;
mod function;
mod number;
mod parser;

pub use fault::Fault;

const NAME: &str = "calculate";

/// A calculator.
#[derive(Debug)]
pub struct Calculate {
    spec: Spec,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Args {
    expression: String,
}

impl Calculate {
    pub fn new() -> Self {
        let parameters = json!({
            "type": "object",
            "properties": {"expression": {"type": "string", "description": "For example: (2 + 3) * 4^2, 15% of 240, sqrt(2), max(3, 1,000)."}},
            "required": ["expression"],
            "additionalProperties": false,
        });
        let description = "Computes an arithmetic expression: + - * / % ^, parentheses, percentages, sqrt abs round floor \
                           ceil min max ln log sin cos tan (radians), pi, e.";
        Self { spec: Spec::reading(NAME, description, parameters) }
    }
}

impl Default for Calculate {
    fn default() -> Self {
        Self::new()
    }
}

impl Tool for Calculate {
    fn spec(&self) -> &Spec {
        &self.spec
    }

    fn call(&self, call: Call) -> BoxFuture<'_, Result<Outcome, Error>> {
        Box::pin(async move {
            let Args { expression } = args::parse(NAME, call.args)?;
            let result = parser::evaluate(&expression)?.to_json();
            Ok(Outcome::Done(json!({"expression": expression, "result": result})))
        })
    }
}

#[cfg(test)]
mod tests;
