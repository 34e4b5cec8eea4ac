#include "services/master/ingest/kafka/kafka_ingest.h"

#include <pthread.h>

#include <utility>

namespace escapement::master {
namespace {

constexpr absl::Duration kReadyStep = absl::Milliseconds(50);

}  // namespace

KafkaIngest::KafkaIngest(KafkaIngestOptions options, Host host)
    : options_(std::move(options)), host_(std::move(host)) {}

KafkaIngest::~KafkaIngest() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  if (!thread_.joinable()) return;
  loop_->Wake();
  thread_.join();
}

absl::Status KafkaIngest::Start() {
  loop_ = std::make_unique<IngestLoop>(options_, host_.events, host_.gate, host_.runtime,
                                       host_.metrics);
  if (absl::Status opened = loop_->Open(); !opened.ok()) return opened;
  thread_ = std::thread([this] { Run(); });
  pthread_setname_np(thread_.native_handle(), "kafka-ingest");
  return absl::OkStatus();
}

void KafkaIngest::Stop(Closure done) {
  absl::MutexLock lock(&mutex_);
  stopping_ = true;
  orderly_ = true;
  done_ = std::move(done);
  loop_->Wake();
}

bool KafkaIngest::AwaitReady() {
  absl::MutexLock lock(&mutex_);
  while (!stopping_ && !host_.ready())
    mutex_.AwaitWithTimeout(absl::Condition(&stopping_), kReadyStep);
  return !stopping_;
}

void KafkaIngest::Run() {
  if (AwaitReady()) loop_->Subscribe();
  const auto stopping = [this] {
    absl::MutexLock lock(&mutex_);
    return stopping_;
  };
  while (!stopping()) loop_->Step();
  Closure done;
  {
    absl::MutexLock lock(&mutex_);
    if (!orderly_) return;
    done = std::move(done_);
  }
  loop_->Finish();
  done();
}

}  // namespace escapement::master
