// RangeMirror: a small range of keys, kept as it is in the store: it reads the range and follows it
// by a watch. If the watch ends, it reads the range again.
//
// A change arrives within milliseconds of its commit. While the store cannot be reached, the mirror
// shows the last state that it has read.
//
// Threads: everything runs on `executor`. Stop the executor before the mirror is destroyed.

#ifndef COMMON_KV_CLIENT_RANGE_MIRROR_H_
#define COMMON_KV_CLIENT_RANGE_MIRROR_H_

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "common/kv/client/kv_client.h"

namespace escapement::kv {

class RangeMirror {
 public:
  using Rows = std::map<std::string, std::string>;

  // The keys of [begin, end). Calls `on_change` with all rows once they have been read, and after
  // each change. `client` must outlive it.
  RangeMirror(KvClient& client, ColumnFamily cf, KeyRange range, std::shared_ptr<Executor> executor,
              std::function<void(const Rows& rows)> on_change);

  void Start();

 private:
  void Read(std::string begin, Rows rows, CommitSeq seq);
  void ReadLater();
  void Watch(CommitSeq seq);
  void OnBatch(const WatchBatch& batch);

  KvClient& client_;
  const ColumnFamily cf_;
  const KeyRange range_;
  const std::shared_ptr<Executor> executor_;
  const std::function<void(const Rows& rows)> on_change_;
  Rows rows_;
  std::unique_ptr<kv::Watch> watch_;
};

}  // namespace escapement::kv

#endif  // COMMON_KV_CLIENT_RANGE_MIRROR_H_
