#include "services/handler/delivery/grpc/stream_ends.h"

#include <utility>

#include "common/base/check.h"
#include "grpcpp/grpcpp.h"
#include "services/handler/delivery/grpc/lane.h"

namespace escapement::handler {

void StreamEnds::AddStream() {
  absl::MutexLock lock(&mutex_);
  ++running_;
}

void StreamEnds::RemoveStream(std::shared_ptr<GrpcLane> lane) {
  absl::MutexLock lock(&mutex_);
  left_.push_back(std::move(lane));
  TakeFrom<uint64_t>(running_, 1);
}

void StreamEnds::Leave(std::shared_ptr<grpc::Channel> channel) {
  absl::MutexLock lock(&mutex_);
  channels_.push_back(std::move(channel));
}

void StreamEnds::Drop() {
  std::vector<std::shared_ptr<GrpcLane>> left;
  std::vector<std::shared_ptr<grpc::Channel>> channels;
  absl::MutexLock lock(&mutex_);
  left.swap(left_);
  channels.swap(channels_);
}

void StreamEnds::AwaitAll() {
  {
    const auto none = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return running_ == 0; };
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(&none));
  }
  Drop();
}

}  // namespace escapement::handler
