//! The PostgreSQL backend passes the store suite.

use session::{
    Error, Result,
    postgres::{Options, PostgresStore, PostgresUrl},
};
use std::sync::Arc;
use testkit::{postgres, store_suite::SharedStore};
use tokio::{runtime::Handle, task};

fn open() -> Result<Option<(SharedStore, ())>> {
    let Some(server) = postgres::shared().map_err(Error::Backend)? else { return Ok(None) };
    let schema = server.schema().map_err(Error::Backend)?;
    let url = PostgresUrl::parse(&schema.url).ok_or(Error::Closed)?;
    let open = PostgresStore::open(&url, Options::default());
    let store = task::block_in_place(|| Handle::current().block_on(open))?;
    Ok(Some((Arc::new(store), ())))
}

testkit::store_contract_tests!(open);
