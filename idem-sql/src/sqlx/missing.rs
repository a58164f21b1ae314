//! [`Missing`]: stands for a value that an operation has forgotten.

use sqlx::encode::IsNull;
use sqlx::error::BoxDynError;
use sqlx::{Database, Encode, Type};

use crate::parameters::Parameter;

/// A value that cannot be encoded: the statement is refused before it is sent, with the parameter's
/// name.
#[derive(Debug, Clone, Copy)]
pub struct Missing(pub Parameter);

impl<DB: Database> Type<DB> for Missing
where
    i64: Type<DB>,
{
    fn type_info() -> DB::TypeInfo {
        <i64 as Type<DB>>::type_info()
    }
}

impl<'q, DB: Database> Encode<'q, DB> for Missing {
    fn encode_by_ref(&self, _: &mut DB::ArgumentBuffer) -> Result<IsNull, BoxDynError> {
        let name = self.0.name();
        Err(format!("the statement's parameter {name} has no value").into())
    }
}
