// A two-way stream that answers its messages in their order.
//
//   class Echo final : public OrderedStream<EchoRequest, EchoResponse> {
//     EchoRequest* RequestToFill() override { return &request_; }
//     void Take(Turn turn) override { turn.Answer(ToResponse(request_)); }
//   };
//   return OrderedStream<EchoRequest, EchoResponse>::Start(std::make_shared<Echo>(options));
//
// Each message is taken as soon as it is read. Its answer may be given on any thread and in any
// order; the stream keeps it until the answers before it are written. At most
// Options::unanswered_max messages are without an answer.
//
// Ends: the client ended its messages and all are answered (OK); a message cannot be parsed, or
// Turn::EndStreamInTurn (that status, after the answers before it); Turn::EndStreamNow (that
// status, and answers that wait are dropped); the client cancels or the connection breaks.
//
// Threads: gRPC calls RequestToFill and Take on its threads, one call at a time. A Turn may be used
// on any thread. The stream lives until gRPC is done with it and no Turn is left.

#ifndef COMMON_RPC_ORDERED_STREAM_GRPC_H_
#define COMMON_RPC_ORDERED_STREAM_GRPC_H_

#include <grpcpp/grpcpp.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "common/rpc/status_conversion.h"
#include "common/rpc/stream_message_grpc.h"

namespace escapement {

struct OrderedStreamOptions {
  size_t unanswered_max = 0;  // messages without an answer at once
  // Makes the status that ends the stream when the client sends more than `unanswered_max`. An
  // answer that is being written is not counted: the client may have it already. If null, the
  // stream instead reads no further message until an answer has been written.
  absl::Status (*refuse_more)() = nullptr;
  // An answer that is followed by another one shares its packet. Fewer packets for small answers.
  bool join_answers = false;
};

template <typename Request, typename Response>
class OrderedStream : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  // The answer that one message is owed. It keeps the stream alive. A Turn that is destroyed
  // unused leaves its message without an answer until the stream ends otherwise.
  class Turn {
   public:
    // Each of these at most once.
    void Answer(Response response) {
      stream_->Settle(place_, absl::OkStatus(), std::move(response));
    }
    void EndStreamInTurn(absl::Status status) {
      stream_->Settle(place_, std::move(status), Response());
    }
    void EndStreamNow(const absl::Status& status) { stream_->EndNow(ToGrpcStatus(status)); }

   private:
    friend class OrderedStream;
    Turn(std::shared_ptr<OrderedStream> stream, uint64_t place)
        : stream_(std::move(stream)), place_(place) {}

    std::shared_ptr<OrderedStream> stream_;
    uint64_t place_;
  };

  // Starts reading. The result is what the method of a callback service returns to gRPC.
  static OrderedStream* Start(std::shared_ptr<OrderedStream> stream) {
    stream->self_ = stream;
    stream->StartRead(&stream->request_bytes_);
    return stream.get();
  }

  void OnReadDone(bool ok) final {
    const absl::Status parsed =
        ok ? ReadMessage(request_bytes_, RequestToFill()) : absl::OkStatus();
    std::optional<uint64_t> place;
    {
      absl::MutexLock lock(&mutex_);
      if (!ok || end_status_.has_value()) {
        read_all_ = true;
      } else if (options_.refuse_more != nullptr &&
                 answers_.size() - (writing_ ? 1 : 0) >= options_.unanswered_max) {
        EndWith(ToGrpcStatus(options_.refuse_more()));
      } else {
        place = first_place_ + answers_.size();
        answers_.emplace_back();
      }
    }
    if (place.has_value()) {
      Turn turn(self_, *place);
      if (parsed.ok()) {
        Take(std::move(turn));
      } else {
        turn.EndStreamInTurn(parsed);
      }
    }
    {
      // Only now: the next message may be read into the memory of this one.
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
      if (!ok) EndWith(grpc::Status(grpc::StatusCode::CANCELLED, "the stream is broken"));
    }
    Advance();
  }

  void OnCancel() final {
    EndNow(grpc::Status(grpc::StatusCode::CANCELLED, "cancelled by the client"));
  }

  void OnDone() final { self_.reset(); }

 protected:
  explicit OrderedStream(OrderedStreamOptions options) : options_(options) {}

  // The object into which the next message is parsed, just before its Take.
  virtual Request* RequestToFill() = 0;

  // Takes the message that was just parsed. `turn` may be used before this returns.
  virtual void Take(Turn turn) = 0;

 private:
  struct Answer {
    bool ready = false;
    absl::Status status;  // not OK: the stream ends with it instead of an answer
    Response response;
  };

  void Settle(uint64_t place, absl::Status status, Response response) {
    {
      absl::MutexLock lock(&mutex_);
      Answer& answer = answers_[place - first_place_];
      answer.ready = true;
      if (status.ok()) {
        answer.response = std::move(response);
      } else {
        answer.status = std::move(status);
        failed_ = true;
      }
    }
    Advance();
  }

  void EndNow(grpc::Status status) {
    {
      absl::MutexLock lock(&mutex_);
      EndWith(std::move(status));
    }
    Advance();
  }

  // The stream ends once no write is under way. The first status stays.
  void EndWith(grpc::Status status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (!end_status_.has_value()) end_status_ = std::move(status);
  }

  // Starts the next read, the next write or the end, if each is possible now. gRPC is called
  // without the lock, since it may call back.
  void Advance() {
    const Response* write = nullptr;
    grpc::WriteOptions write_options;
    std::optional<grpc::Status> finish;
    bool read = false;
    {
      absl::MutexLock lock(&mutex_);
      if (finished_) return;
      const bool front_ready = !writing_ && !answers_.empty() && answers_.front().ready;
      if (front_ready && !answers_.front().status.ok())
        EndWith(ToGrpcStatus(answers_.front().status));
      const bool all_answered = read_all_ && answers_.empty();
      if ((end_status_.has_value() || all_answered) && !writing_) {
        // Finish ends a read that is under way.
        finish = end_status_.value_or(grpc::Status::OK);
        finished_ = true;
      } else if (!end_status_.has_value()) {
        if (front_ready) {
          write = &answers_.front().response;
          writing_ = true;
          if (options_.join_answers && AnotherFollows()) write_options.set_buffer_hint();
        }
        if (!reading_ && !read_all_ && !failed_ && MayReadMore()) reading_ = read = true;
      }
    }
    // Read first: when a write has started, its end may start the next step on another thread.
    if (read) this->StartRead(&request_bytes_);
    if (write != nullptr) {
      WriteMessage(*write, &write_bytes_);
      this->StartWrite(&write_bytes_, write_options);
    }
    if (finish.has_value()) this->Finish(*finish);
  }

  // True if the answer behind the front can be written at once. The first answer of a stream is
  // always sent by itself: it takes the call's metadata with it, and its write is not done before
  // these are sent.
  bool AnotherFollows() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return first_place_ > 0 && answers_.size() > 1 && answers_[1].ready && answers_[1].status.ok();
  }

  bool MayReadMore() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return options_.refuse_more != nullptr || answers_.size() < options_.unanswered_max;
  }

  const OrderedStreamOptions options_;
  std::shared_ptr<OrderedStream> self_;  // until OnDone
  grpc::ByteBuffer request_bytes_;       // of the read under way
  grpc::ByteBuffer write_bytes_;         // of the write under way

  absl::Mutex mutex_;
  // One for each message without a written answer, in order. A deque keeps its elements in place
  // while others come and go at its ends.
  std::deque<Answer> answers_ ABSL_GUARDED_BY(mutex_);
  uint64_t first_place_ ABSL_GUARDED_BY(mutex_) = 0;  // of answers_.front()
  bool reading_ ABSL_GUARDED_BY(mutex_) = true;
  bool read_all_ ABSL_GUARDED_BY(mutex_) = false;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool failed_ ABSL_GUARDED_BY(mutex_) = false;  // one of `answers_` will end the stream
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<grpc::Status> end_status_ ABSL_GUARDED_BY(mutex_);  // set: the stream ends
};

}  // namespace escapement

#endif  // COMMON_RPC_ORDERED_STREAM_GRPC_H_
