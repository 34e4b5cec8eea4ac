#include "common/kv/log/pg/pg_statements.h"

#include <string>

namespace escapement::kv::pg {
namespace {

// store → epoch, owner, address, genesis, seq, chain of the last row
constexpr PgStatement kStateStatement = {kState, R"(
SELECT s.epoch, s.owner, s.address, s.genesis, r.seq, r.chain
FROM escapement.log_stores s, LATERAL (
  SELECT seq, chain FROM escapement.log_rows WHERE store = s.store ORDER BY seq DESC LIMIT 1) r
WHERE s.store = $1::text)"};

constexpr PgStatement kWriter[] = {
    kStateStatement,

    // store, epoch, owner, seq and chain of the row before, chain, data
    //
    // The lock makes appends and Lead wait for one another. So an append is either before a Lead,
    // which then sees its row, or after it, and then finds another epoch here. The row before
    // anchors the new one in its history. The primary key lets only one row n be: a second one is
    // an error, which undoes the whole append.
    {kAppend, R"(
INSERT INTO escapement.log_rows (store, seq, epoch, chain, data)
SELECT s.store, $4::bigint + 1, s.epoch, $6::bigint, $7::bytea
FROM escapement.log_stores s
WHERE s.store = $1::text AND s.epoch = $2::bigint AND s.owner = $3::text
  AND EXISTS (SELECT FROM escapement.log_rows p
              WHERE p.store = $1::text AND p.seq = $4::bigint AND p.chain = $5::bigint)
FOR SHARE OF s)"},

    // store, seq of the append's last row → epoch, owner, chain of that row, last seq
    {kAppendDiagnose, R"(
SELECT s.epoch, s.owner,
  (SELECT chain FROM escapement.log_rows WHERE store = $1::text AND seq = $2::bigint),
  (SELECT max(seq) FROM escapement.log_rows WHERE store = $1::text)
FROM escapement.log_stores s WHERE s.store = $1::text)"},

    // store, application name of writers, epoch, owner → how many connections it has ended
    //
    // Ends the other writers' connections if the term still leads.
    {kEndOthers, R"(
SELECT count(pg_terminate_backend(a.pid))
FROM pg_stat_activity a
WHERE a.datname = current_database() AND a.usename = current_user
  AND a.application_name = $2::text AND a.pid <> pg_backend_pid()
  AND EXISTS (SELECT FROM escapement.log_stores s
              WHERE s.store = $1::text AND s.epoch = $3::bigint AND s.owner = $4::text))"},

    // store, genesis, owner, address
    {kLeadCreate, R"(
INSERT INTO escapement.log_stores (store, genesis, epoch, owner, address)
VALUES ($1::text, $2::bigint, 1, $3::text, $4::text)
ON CONFLICT DO NOTHING)"},

    // store, genesis, owner
    {kLeadFirstRow, R"(
INSERT INTO escapement.log_rows (store, seq, epoch, chain, data)
SELECT s.store, 0, 0, s.genesis, ''
FROM escapement.log_stores s
WHERE s.store = $1::text AND s.genesis = $2::bigint AND s.epoch = 1 AND s.owner = $3::text
ON CONFLICT DO NOTHING)"},

    // store
    //
    // A statement of its own: what follows sees the rows of the appends for which this one waited.
    {kLeadLock, "SELECT FROM escapement.log_stores WHERE store = $1::text FOR UPDATE"},

    // store, seen epoch and owner, new owner and address, seen last seq and chain
    {kLeadRaise, R"(
UPDATE escapement.log_stores s SET epoch = s.epoch + 1, owner = $4::text, address = $5::text
WHERE s.store = $1::text AND s.epoch = $2::bigint AND s.owner = $3::text
  AND EXISTS (SELECT FROM escapement.log_rows p
              WHERE p.store = $1::text AND p.seq = $6::bigint AND p.chain = $7::bigint)
  AND NOT EXISTS (SELECT FROM escapement.log_rows n
                  WHERE n.store = $1::text AND n.seq = $6::bigint + 1))"},
};

constexpr PgStatement kWorker[] = {
    kStateStatement,

    // store, seq, rows, bytes → seq, epoch, chain, data from that row on
    //
    // The sizes of long values are known without their bytes, so the server reads only what it
    // sends. The first row has no data: the reader has it and only compares its chain.
    {kRead, R"(
SELECT seq, epoch, chain, CASE WHEN seq > $2::bigint THEN data END
FROM (
  SELECT seq, epoch, chain, data,
    sum(CASE WHEN seq > $2::bigint THEN octet_length(data) ELSE 0 END)
      OVER (ORDER BY seq ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS bytes_before
  FROM (
    SELECT seq, epoch, chain, data FROM escapement.log_rows
    WHERE store = $1::text AND seq >= $2::bigint ORDER BY seq LIMIT $3::bigint + 1) t) u
WHERE coalesce(bytes_before, 0) < $4::bigint
ORDER BY seq)"},

    // store, hashes, numbers of parts → indexes (from 1) of the files that are not whole
    {kMissingFiles, R"(
SELECT f.i
FROM unnest($2::bytea[], $3::bigint[]) WITH ORDINALITY f (hash, parts, i)
WHERE (SELECT count(*) FROM escapement.log_file_parts p
       WHERE p.store = $1::text AND p.hash = f.hash) <> f.parts)"},

    // store, hashes
    {kAddFiles, R"(
INSERT INTO escapement.log_files (store, hash)
SELECT $1::text, h FROM unnest($2::bytea[]) h ORDER BY h ON CONFLICT DO NOTHING)"},

    // store, hash, part, check value, data
    {kPutPart, R"(
INSERT INTO escapement.log_file_parts (store, hash, part, check_value, data)
VALUES ($1::text, $2::bytea, $3::bigint, $4::bigint, $5::bytea) ON CONFLICT DO NOTHING)"},

    // store, seq, chain, manifest
    {kSnapshotBegin, R"(
INSERT INTO escapement.log_snapshots AS s (store, seq, chain, whole, manifest)
SELECT $1::text, $2::bigint, $3::bigint, false, $4::bytea
WHERE EXISTS (SELECT FROM escapement.log_rows p
              WHERE p.store = $1::text AND p.seq = $2::bigint AND p.chain = $3::bigint)
ON CONFLICT (store, seq) DO UPDATE SET chain = excluded.chain, manifest = excluded.manifest
WHERE NOT s.whole)"},

    // store, seq
    {kSnapshotClear, R"(
DELETE FROM escapement.log_snapshot_files f
WHERE f.store = $1::text AND f.seq = $2::bigint
  AND EXISTS (SELECT FROM escapement.log_snapshots s
              WHERE s.store = $1::text AND s.seq = $2::bigint AND NOT s.whole))"},

    // store, seq, hashes
    //
    // The foreign keys lock the files, so from here on no trim removes one.
    {kSnapshotFiles, R"(
INSERT INTO escapement.log_snapshot_files (store, seq, hash)
SELECT s.store, s.seq, h
FROM escapement.log_snapshots s, unnest($3::bytea[]) h
WHERE s.store = $1::text AND s.seq = $2::bigint AND NOT s.whole
ORDER BY h ON CONFLICT DO NOTHING)"},

    // store, seq, hashes, numbers of parts
    {kSnapshotEnd, R"(
UPDATE escapement.log_snapshots s SET whole = true
WHERE s.store = $1::text AND s.seq = $2::bigint AND NOT s.whole
  AND NOT EXISTS (
    SELECT FROM unnest($3::bytea[], $4::bigint[]) f (hash, parts)
    WHERE (SELECT count(*) FROM escapement.log_file_parts p
           WHERE p.store = $1::text AND p.hash = f.hash) <> f.parts))"},

    // store, seq, chain → whole
    {kSnapshotCheck, R"(
SELECT whole FROM escapement.log_snapshots
WHERE store = $1::text AND seq = $2::bigint AND chain = $3::bigint)"},

    // store → seq, chain, manifest
    {kListSnapshots, R"(
SELECT seq, chain, manifest FROM escapement.log_snapshots
WHERE store = $1::text AND whole ORDER BY seq DESC)"},

    // store, hash, part → check value, data
    {kReadPart, R"(
SELECT check_value, data FROM escapement.log_file_parts
WHERE store = $1::text AND hash = $2::bytea AND part = $3::bigint)"},

    // store, snapshots kept
    //
    // Without a whole snapshot the oldest one kept is NULL, and nothing is removed. Uploads of
    // newer snapshots stay.
    {kTrimSnapshots, R"(
DELETE FROM escapement.log_snapshots
WHERE store = $1::text AND seq < (
  SELECT min(seq) FROM (
    SELECT seq FROM escapement.log_snapshots
    WHERE store = $1::text AND whole ORDER BY seq DESC LIMIT $2::bigint) k))"},

    // store, files at most
    {kTrimFiles, R"(
DELETE FROM escapement.log_files
WHERE store = $1::text AND hash IN (
  SELECT f.hash FROM escapement.log_files f
  WHERE f.store = $1::text AND NOT EXISTS (
    SELECT FROM escapement.log_snapshot_files x WHERE x.store = $1::text AND x.hash = f.hash)
  LIMIT $2::bigint))"},

    // store, snapshots kept, rows at most
    {kTrimRows, R"(
DELETE FROM escapement.log_rows
WHERE store = $1::text AND seq IN (
  SELECT seq FROM escapement.log_rows
  WHERE store = $1::text AND seq < (
    SELECT min(seq) FROM (
      SELECT seq FROM escapement.log_snapshots
      WHERE store = $1::text AND whole ORDER BY seq DESC LIMIT $2::bigint) k)
  ORDER BY seq LIMIT $3::bigint))"},

    // store, replica, details. It does not wait for standbys, because nothing rests on a report: it
    // would keep the connection from all that comes behind it.
    {kPutReport, R"(
INSERT INTO escapement.log_reports (store, replica, put_at, details)
SELECT $1::text, $2::text, now(), $3::bytea
WHERE set_config('synchronous_commit', 'local', true) IS NOT NULL
ON CONFLICT (store, replica) DO UPDATE SET put_at = excluded.put_at, details = excluded.details)"},

    // store, seconds
    {kTrimReports, R"(
DELETE FROM escapement.log_reports
WHERE store = $1::text AND put_at < now() - $2::bigint * interval '1 s')"},

    // store, seconds → replica, age in µs, details
    {kListReports, R"(
SELECT replica, greatest(extract(epoch FROM now() - put_at) * 1000000, 0)::bigint, details
FROM escapement.log_reports
WHERE store = $1::text AND put_at >= now() - $2::bigint * interval '1 s'
ORDER BY replica)"},
};

}  // namespace

LogState StateOf(const PgRows& rows) {
  LogState state;
  if (rows.size() == 0) return state;
  state.leader = {rows.Bigint(0, 0), std::string(rows.Bytes(0, 1))};
  state.address = std::string(rows.Bytes(0, 2));
  state.first = {0, rows.Bigint(0, 3)};
  state.last = {rows.Bigint(0, 4), rows.Bigint(0, 5)};
  return state;
}

absl::Span<const PgStatement> WriterStatements() { return kWriter; }
absl::Span<const PgStatement> WorkerStatements() { return kWorker; }

}  // namespace escapement::kv::pg
