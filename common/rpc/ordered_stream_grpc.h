// Reads and writes the messages of a raw stream, whose reactor gets bytes instead of messages.
//
// gRPC tells a reactor of messages only that a read has failed, but not why: a message that cannot
// be parsed looks like the end of the stream. A reactor of bytes can tell the two apart.
//
// Threads: pure functions.

#ifndef COMMON_RPC_ORDERED_STREAM_GRPC_H_
#define COMMON_RPC_ORDERED_STREAM_GRPC_H_

#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/codegen/proto_utils.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "common/base/check.h"
#include "common/rpc/status_conversion.h"

namespace escapement {

// Parses `bytes` into `message` and empties `bytes`. UnreadableMessage if it cannot be parsed.
template <typename Message>
absl::Status ReadMessage(grpc::ByteBuffer& bytes, Message* message) {
  const grpc::Status read = grpc::SerializationTraits<Message>::Deserialize(&bytes, message);
  return read.ok() ? absl::OkStatus() : UnreadableMessage();
}

// Replaces the content of `bytes`.
template <typename Message>
void WriteMessage(const Message& message, grpc::ByteBuffer* bytes) {
  bool own_buffer = false;
  bytes->Clear();
  grpc::SerializationTraits<Message>::Serialize(message, bytes, &own_buffer);
}

// OrderedStream: the server's side of a two-way stream that answers every message once, in order.
//
//   client:  message 0, message 1, …          server:  answer 0, answer 1, …
//
// Several messages may be in work at once, and their work may end in any order; the answers are
// sent in the order of the messages. A derived class parses a message and starts its work in
// Take(), and calls Answer() with the result.
//
// The stream ends
//   - with OK, when the client has ended its side and everything is answered;
//   - with the error of the first answer that is one, once the answers before it are sent;
//   - at once with CANCELLED, or with the status given to EndNow().
//
// Threads: gRPC calls Take() from one thread at a time, and reads the next message only after
// Take() has returned. Answer() and EndNow() from any thread.
//
// Life: a stream holds itself from Start() until gRPC is done with it. Work under way holds it by
// self().

template <typename Response>
class OrderedStream : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  struct Options {
    // Messages without an answer. An answer that is being written counts only for kStopReading.
    size_t unanswered_max = 0;
    // At this bound the stream stops reading until an answer has been sent, or it ends with
    // `too_many`.
    enum class WhenFull { kStopReading, kEndStream } when_full = WhenFull::kStopReading;
    absl::Status too_many = absl::OkStatus();
    // Sends an answer together with the next one if that is there already.
    bool join_answers = false;
  };

  // Begins to read. Returns what gRPC wants from the method.
  template <typename Stream>
  static Stream* Start(std::shared_ptr<Stream> stream) {
    stream->self_ = stream;
    stream->StartRead(&stream->request_bytes_);
    return stream.get();
  }

  void OnReadDone(bool ok) final {
    std::optional<uint64_t> place;
    {
      absl::MutexLock lock(&mutex_);
      if (!ok || ended_) {
        read_all_ = true;
      } else if (options_.when_full == Options::WhenFull::kEndStream &&
                 answers_.size() - (writing_ ? 1 : 0) >= options_.unanswered_max) {
        EndWith(options_.too_many);
      } else {
        place = first_place_ + answers_.size();
        answers_.emplace_back();
      }
    }
    if (place.has_value()) {
      absl::Status taken = Take(request_bytes_, *place);
      if (!taken.ok()) Answer(*place, std::move(taken));
    }
    {
      absl::MutexLock lock(&mutex_);
      reading_ = false;
    }
    Advance();
  }

  void OnWriteDone(bool ok) final {
    {
      absl::MutexLock lock(&mutex_);
      writing_ = false;
      answers_.pop_front();
      ++first_place_;
      if (!ok) EndWith(absl::CancelledError("the stream is broken"));
    }
    Advance();
  }

  void OnCancel() final { EndNow(absl::CancelledError("cancelled by the client")); }
  void OnDone() final { self_.reset(); }

 protected:
  explicit OrderedStream(Options options) : options_(std::move(options)) {}

  // Parses `bytes` with ReadMessage and starts the work, which ends with Answer(place, …). An error
  // that is returned is the answer.
  virtual absl::Status Take(grpc::ByteBuffer& bytes, uint64_t place) = 0;

  // Once for each place that Take() has accepted; also before Take() has returned. After an error
  // no further message is read.
  void Answer(uint64_t place, absl::StatusOr<Response> response) {
    {
      absl::MutexLock lock(&mutex_);
      CHECK_GE(place, first_place_);
      CHECK_LT(place - first_place_, answers_.size());
      std::optional<absl::StatusOr<Response>>& answer = answers_[place - first_place_];
      CHECK(!answer.has_value()) << "place " << place << " is answered twice";
      if (!response.ok()) failed_ = true;
      answer = std::move(response);
    }
    Advance();
  }

  // Sends no further answer. The first status counts.
  void EndNow(const absl::Status& status) {
    {
      absl::MutexLock lock(&mutex_);
      EndWith(status);
    }
    Advance();
  }

  // No further answer is sent.
  bool ended() {
    absl::MutexLock lock(&mutex_);
    return ended_;
  }

  std::shared_ptr<OrderedStream> self() const { return self_; }

 private:
  void EndWith(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (!ended_) end_status_ = status;
    ended_ = true;
  }

  // Starts whatever can be started. gRPC is called without the lock, since it may call back.
  void Advance() {
    const Response* write = nullptr;
    grpc::WriteOptions write_options;
    std::optional<absl::Status> finish;
    bool read = false;
    {
      absl::MutexLock lock(&mutex_);
      if (finished_) return;
      const bool front_ready = !writing_ && !answers_.empty() && answers_.front().has_value();
      if (front_ready && !answers_.front()->ok()) EndWith(answers_.front()->status());
      const bool all_answered = read_all_ && answers_.empty();
      if ((ended_ || all_answered) && !writing_) {
        // Finish ends a read that is under way.
        finish = ended_ ? end_status_ : absl::OkStatus();
        finished_ = true;
      } else if (!ended_) {
        if (front_ready) {
          write = &**answers_.front();
          writing_ = true;
          if (options_.join_answers && NextIsReady()) write_options.set_buffer_hint();
        }
        const bool full = options_.when_full == Options::WhenFull::kStopReading &&
                          answers_.size() >= options_.unanswered_max;
        if (!reading_ && !read_all_ && !failed_ && !full) reading_ = read = true;
      }
    }
    // The read comes first: as soon as the write is started, its end may start the next step on
    // another thread.
    if (read) StartRead(&request_bytes_);
    if (write != nullptr) {
      WriteMessage(*write, &write_bytes_);
      StartWrite(&write_bytes_, write_options);
    }
    if (finish.has_value()) Finish(ToGrpcStatus(*finish));
  }

  // True if the answer behind the front follows at once. The first answer takes the call's
  // metadata with it and must not wait for another.
  bool NextIsReady() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return first_place_ > 0 && answers_.size() > 1 && answers_[1].has_value() && answers_[1]->ok();
  }

  const Options options_;
  std::shared_ptr<OrderedStream> self_;
  grpc::ByteBuffer request_bytes_;  // the read under way, or the message that Take() parses
  grpc::ByteBuffer write_bytes_;    // the write under way

  absl::Mutex mutex_;
  // One for each unanswered message, in order; nullopt: in work. The elements of a deque stay in
  // place while others come and go at its ends, so the front can be written without the lock.
  std::deque<std::optional<absl::StatusOr<Response>>> answers_ ABSL_GUARDED_BY(mutex_);
  uint64_t first_place_ ABSL_GUARDED_BY(mutex_) = 0;  // place of answers_.front()
  bool reading_ ABSL_GUARDED_BY(mutex_) = true;
  bool read_all_ ABSL_GUARDED_BY(mutex_) = false;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool failed_ ABSL_GUARDED_BY(mutex_) = false;  // an answer ends the stream when its turn comes
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status end_status_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace escapement

#endif  // COMMON_RPC_ORDERED_STREAM_GRPC_H_
