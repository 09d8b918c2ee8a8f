//! `calculate`: arithmetic expressions in the syntax of Python and of pocket calculators, evaluated exactly where possible.
//!
//! | module | contents |
//! |---|---|
//! | `parser` | the grammar; evaluates while it parses |
//! | `arguments` | lists and commas between arguments |
//! | `cursor` | the position in the text, and characters with the same meaning |
//! | `literal` | number literals |
//! | `number` | exact fractions and floating point numbers |
//! | `function` | the table of functions; `aggregate`, `combinatorics` and `logarithm` compute some of them |
//! | `effort` | the limit of computation |
//! | `result` | results as JSON |

use futures::future::BoxFuture;
use serde::Deserialize;
use serde_json::json;

use self::function::MathFunction;
use crate::{Spec, Tool, ToolReply, ToolRequest, ToolsError, args};

mod aggregate;
mod arguments;
mod combinatorics;
mod cursor;
mod effort;
mod error;
mod function;
mod literal;
mod logarithm;
mod number;
mod parser;
mod result;

pub use error::ExpressionError;

const NAME: &str = "calculate";
const EXPRESSION: &str = "For example: (2 + 3) * 4^2, 15% of 240, sqrt(2), 2**100 // 7, comb(49, 6), mean(3, 5.5, 1000), 1,000 * 1.07^10. \
                          Between the arguments of a function, a comma separates: write 1000 or 1_000.";

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
            "properties": {"expression": {"type": "string", "description": EXPRESSION}},
            "required": ["expression"],
            "additionalProperties": false,
        });
        let description = format!(
            "Computes an arithmetic expression exactly: + - * / // % ^ ** !, percentages (200 + 10% is 220), comparisons, pi, e, tau, \
             and the functions {}. log is the natural logarithm, angles are in radians (30° is allowed), round rounds half \
             away from zero.",
            MathFunction::known()
        );
        Self { spec: Spec::read_only(NAME, &description, parameters) }
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
