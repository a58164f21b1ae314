//! Macros for the statements of a store.

/// Declares `Statements`: a field for each statement, in groups whose statements are made from
/// their templates in the same way. `of` takes the values that make the statements of each group,
/// and the fields behind `+` unchanged. After `listed;`, tests get a list of each group.
#[macro_export]
macro_rules! statements {
    (
        listed;
        $($group:ident: $Statement:ty, of $Template:ty {
            $($name:ident: $template:expr),* $(,)?
        })*
    ) => {
        $crate::statements! {
            $($group: $Statement, of $Template { $($name: $template),* })*
        }

        #[cfg(test)]
        impl Statements {
            $(
                fn $group(&self) -> Vec<&$Statement> {
                    vec![$(&self.$name),*]
                }
            )*
        }
    };
    (
        $($group:ident: $Statement:ty, of $Template:ty {
            $($name:ident: $template:expr),* $(,)?
        })*
        $(+ { $($(#[$about:meta])* $other:ident: $Other:ty,)* })?
    ) => {
        /// The statements with the tables' names filled in, shared by all clones of a store.
        #[derive(Debug)]
        pub(crate) struct Statements {
            $($(pub(crate) $name: $Statement,)*)*
            $($($(#[$about])* pub(crate) $other: $Other,)*)?
        }

        impl Statements {
            fn of(
                $($group: impl Fn($Template) -> $Statement,)*
                $($($other: $Other,)*)?
            ) -> Self {
                Self {
                    $($($name: $group($template),)*)*
                    $($($other,)*)?
                }
            }
        }
    };
}

/// Implements `to_write` and `to_read` over the fields of `Statements` that all stores have.
#[macro_export]
macro_rules! statements_by_kind {
    ($Statement:ty) => {
        impl Statements {
            /// Returns the statement that writes a record in this way.
            pub(crate) fn to_write(&self, what: $crate::operations::Write) -> &$Statement {
                use $crate::operations::Write;
                match what {
                    Write::Seal => &self.seal,
                    Write::Release => &self.release,
                    Write::Renew => &self.renew,
                    Write::Checkpoint => &self.checkpoint,
                    Write::Abandon => &self.abandon,
                    Write::Force => &self.force,
                    Write::Rewrite => &self.rewrite,
                }
            }

            /// Returns the statement that reads this.
            pub(crate) fn to_read(&self, what: $crate::operations::Read) -> &$Statement {
                use $crate::operations::Read;
                match what {
                    Read::Owned => &self.owned,
                    Read::Record => &self.get,
                    Read::Summary => &self.summary,
                    Read::LastCheckpoint => &self.last_checkpoint,
                    Read::Watermark => &self.watermark,
                }
            }
        }
    };
}
