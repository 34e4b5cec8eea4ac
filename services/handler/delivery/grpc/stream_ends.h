// StreamEnds: where lanes and channels go when they are no longer used.
//
// Threads: any.

#ifndef SERVICES_HANDLER_DELIVERY_GRPC_STREAM_ENDS_H_
#define SERVICES_HANDLER_DELIVERY_GRPC_STREAM_ENDS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace grpc {
class Channel;
}  // namespace grpc

namespace escapement::handler {

class GrpcLane;

// Collects the lanes of ended streams, so that the transport's own threads drop them. A gRPC thread
// must not drop the last reference to a channel, whose destructor may wait for this very thread.
class StreamEnds {
 public:
  void AddStream();
  // The last call of a stream.
  void RemoveStream(std::shared_ptr<GrpcLane> lane);
  // Drops the channel later, too.
  void Leave(std::shared_ptr<grpc::Channel> channel);
  // Drops the lanes of ended streams, and the channels that were left.
  void Drop();
  // Waits until every stream has ended, and drops their lanes.
  void AwaitAll();

 private:
  absl::Mutex mutex_;
  uint64_t running_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<std::shared_ptr<GrpcLane>> left_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::shared_ptr<grpc::Channel>> channels_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_DELIVERY_GRPC_STREAM_ENDS_H_
