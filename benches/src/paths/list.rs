//! Lists of records: claims beside one, and its pages in tables of different sizes.

use std::sync::Arc;
use std::time::Instant;

use idem_core::admin::{Cursor, RecordFilter};
use idem_core::{BoxError, IdempotencyStore, RecordAdmin};

use super::beside::{Done, IsOver, beside};
use super::{HOUR, Scene, Visit};
use crate::measured::Measured;
use crate::operations::{Calls, Life, Operation};

const LISTED: &str = "beside a list";
const HURRIED: &str = "beside a list without a pause";
const NOT_LISTED: &str = "no list";

/// The records that a page looks at.
const PAGE: u32 = 1000;

/// After a page the list rests this many times as long as it took, as the console does.
const RESTS: u32 = 9;

/// The number of rows, and the contender's name.
const SIZES: [(u64, &str); 3] = [
    (10_000, FEW),
    (100_000, "1e5 rows"),
    (10_000_000, "1e7 rows"),
];
const FEW: &str = "1e4 rows";

fn admin(store: &dyn IdempotencyStore) -> Result<&dyn RecordAdmin, BoxError> {
    store.admin().ok_or_else(|| "the store has no list".into())
}

/// Lists all records again and again until the round ends.
async fn list_until(mut is_over: IsOver, store: Arc<dyn IdempotencyStore>, rests: u32) -> Done {
    let (mut cursor, filter) = (None, RecordFilter::new());
    while !*is_over.borrow() {
        let began = Instant::now();
        let page = admin(&*store)?.list(&filter, cursor.as_ref(), PAGE).await?;
        cursor = page.next;
        // Ends at once when the round ends.
        let _ = tokio::time::timeout(began.elapsed() * rests, is_over.changed()).await;
    }
    Ok(())
}

/// One page after the other, and from the beginning again after the last.
struct Pages(Arc<dyn IdempotencyStore>);

impl Operation for Pages {
    type Connection = Option<Cursor>;

    async fn connect(&self) -> Result<Option<Cursor>, BoxError> {
        Ok(None)
    }

    async fn step(&self, cursor: &mut Option<Cursor>, _: &str) -> Result<(), BoxError> {
        let (admin, filter) = (admin(&*self.0)?, RecordFilter::new());
        let page = admin.list(&filter, cursor.as_ref(), PAGE).await?;
        *cursor = page.next;
        match page.records.len() {
            0 if cursor.is_some() => Err("a page is empty".into()),
            _ => Ok(()),
        }
    }
}

/// Measures claims beside a list that never rests, and pages where there are few rows and many. If
/// the table cannot be filled, there is no scene.
pub(super) async fn list(visit: &mut Visit<'_>) -> Result<(), BoxError> {
    if visit.backend.most_rows() == 0 {
        return Ok(());
    }
    let arena = visit.arena().await?;
    let rows = *visit.plan.pick(&1_000_000, &100_000);
    arena.fill(rows, 24 * HOUR).await?;
    let claims = Calls(arena.store(), Life::Claim);
    let mut contenders = vec![Measured::boxed(NOT_LISTED, claims)];
    for (name, rests) in [(LISTED, RESTS), (HURRIED, 0)] {
        let store = arena.another().await?;
        contenders.push(beside(name, &arena, move |started, is_over| {
            let _ = started.send(());
            list_until(is_over, Arc::clone(&store), rests)
        }));
    }
    let scene = Scene::new("list", &[8], contenders).comparing(|heat| {
        vec![
            heat.row("list", LISTED, NOT_LISTED),
            heat.row("list_without_a_pause", HURRIED, NOT_LISTED),
        ]
    });
    visit.measure(scene).await?;

    let full = &[SIZES[0], SIZES[2]];
    let most = visit.backend.most_rows();
    let mut contenders = Vec::new();
    for (rows, name) in visit.plan.pick(&full[..], &SIZES[..2]) {
        if *rows <= most {
            let arena = visit.arena().await?;
            arena.fill(*rows, 24 * HOUR).await?;
            contenders.push(Measured::boxed(name, Pages(arena.store())));
        }
    }
    let scene = Scene::new("list_page", &[1], contenders).comparing(|heat| {
        let many = SIZES.iter().skip(1);
        let rows = many.map(|(_, name)| heat.row("list_page", name, FEW));
        rows.collect()
    });
    visit.measure(scene).await
}
