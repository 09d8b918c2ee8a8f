//! `calculate`: arithmetic expressions, evaluated exactly while the operands fit into 128 bits.

use futures::future::BoxFuture;
use serde::Deserialize;
use serde_json::json;

use crate::{Spec, Tool, ToolReply, ToolRequest, ToolsError, args};

mod error;
mod function;
mod number;
mod parser;

pub use error::ExpressionError;

const NAME: &str = "calculate";

/// The tool `calculate`.
#[derive(Debug)]
pub struct Calculate {
    spec: Spec,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CalculateArgs {
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
        Self { spec: Spec::read_only(NAME, description, parameters) }
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

    fn call(&self, request: ToolRequest) -> BoxFuture<'_, Result<ToolReply, ToolsError>> {
        Box::pin(async move {
            let CalculateArgs { expression } = args::parse(NAME, request.args)?;
            let result = parser::evaluate(&expression)?.to_json();
            Ok(ToolReply::Done(json!({"expression": expression, "result": result})))
        })
    }
}

#[cfg(test)]
mod tests;
