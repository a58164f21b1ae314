//! Which node has which key.

use idem_core::ClaimRequest;
use idem_redis::{Config, RedisStore};
use idem_servers::Cluster;

use crate::own::{Outcome, request};

/// Slots of each master at first:
/// <https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/>.
const FIRST_SLOTS: [u16; 3] = [0, 5461, 10923];

/// A store of its own connections.
pub(crate) async fn store(cluster: &Cluster, config: Config) -> Outcome<RedisStore> {
    let urls: Vec<_> = (0..cluster.nodes()).map(|node| cluster.url(node)).collect();
    Ok(RedisStore::connect_cluster(&urls, config).await?)
}

/// Returns the Redis key of this request's record.
pub(crate) fn record_key(request: &ClaimRequest) -> String {
    format!("idem:r:{}", request.key().path())
}

/// CRC-16/XMODEM; none of our keys has a hash tag.
pub(crate) fn slot(request: &ClaimRequest) -> u16 {
    let step = |crc: u16, byte: u8| {
        (0..8).fold(crc ^ (u16::from(byte) << 8), |crc, _| {
            (crc << 1) ^ if crc & 0x8000 == 0 { 0 } else { 0x1021 }
        })
    };
    record_key(request).bytes().fold(0, step) % 16384
}

/// Returns which of the three masters has it at first.
pub(crate) fn master(request: &ClaimRequest) -> usize {
    let slot = slot(request);
    FIRST_SLOTS
        .iter()
        .rposition(|first| *first <= slot)
        .unwrap_or_default()
}

/// Returns this many ids whose records are in the slot of the first of them.
pub(crate) fn ids_of_one_slot(prefix: &str, count: usize) -> Vec<String> {
    let wanted = slot(&request(format!("{prefix} 0")));
    (0..)
        .map(|number| format!("{prefix} {number}"))
        .filter(|id| slot(&request(id)) == wanted)
        .take(count)
        .collect()
}
