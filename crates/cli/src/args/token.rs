//! The arguments of `lango token`.

use clap::Subcommand;

#[derive(Debug, clap::Args)]
pub(crate) struct TokenArgs {
    #[command(subcommand)]
    pub(crate) command: TokenCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Create a token and print it once
    Add(TokenAdd),
    /// List the tokens
    List,
    /// Revoke a token, also for a running server
    Revoke {
        /// The name of the token
        name: String,
    },
}

#[derive(Debug, clap::Args)]
pub(crate) struct TokenAdd {
    /// A name for the token
    #[arg(value_parser = token_name)]
    pub(crate) name: String,
    /// The user that the token authenticates
    #[arg(long, value_parser = token_name, required_unless_present = "admin")]
    pub(crate) user: Option<String>,
    /// Grant administrator rights; without --user, the token may act as any user
    #[arg(long)]
    pub(crate) admin: bool,
    /// Lifetime of the token, such as 90d or 12h [default: until it is revoked]
    #[arg(long, value_name = "TIME")]
    pub(crate) expires: Option<String>,
}

fn token_name(text: &str) -> Result<String, &'static str> {
    let is_invalid = text.trim() != text || text.is_empty() || text.chars().any(char::is_control);
    if is_invalid {
        Err("it must not be empty, begin or end with spaces, or contain control characters")
    } else {
        Ok(text.to_owned())
    }
}
