//! The cache of `idem-hybrid` in front of a store, so that forced steps reach it, too.

use std::sync::Arc;

use idem_core::IdempotencyStore;
use idem_hybrid::{HybridStore, RedisCache};
use idem_redis::Config;

use super::redis::{Address, address};
use crate::args::StoreArgs;
use crate::failure::Result;

/// Puts the cache of `--cache` in front of the store.
pub(super) fn in_front(
    args: &StoreArgs,
    store: Arc<dyn IdempotencyStore>,
) -> Result<Arc<dyn IdempotencyStore>> {
    let Some((url, namespace)) = args.cache()? else {
        return Ok(store);
    };
    let config = Config::new().with_timeout(args.timeout);
    let cache = match address(url)? {
        Address::Node(url) => RedisCache::new(&url, namespace, &config)?,
        Address::Cluster(urls) => {
            let urls: Vec<_> = urls.iter().map(String::as_str).collect();
            RedisCache::new_cluster(&urls, namespace, &config)?
        }
        Address::Sentinel(urls, group, template) => {
            let urls: Vec<_> = urls.iter().map(String::as_str).collect();
            RedisCache::new_sentinel(&urls, &group, &template, namespace, &config)?
        }
    };
    Ok(Arc::new(HybridStore::new(cache, store)))
}
