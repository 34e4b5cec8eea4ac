// MessageQueue: entries that wait to be written to a stream, gathered into messages of bounded
// size. It reuses messages, and with them the memory of their fields.
//
// Threads: one at a time. Do not touch the message that Front() returned until PopSent().

#ifndef COMMON_KV_WIRE_MESSAGE_QUEUE_H_
#define COMMON_KV_WIRE_MESSAGE_QUEUE_H_

#include <cstddef>
#include <deque>
#include <memory>
#include <utility>

namespace escapement::kv {

template <typename Message>
class MessageQueue {
 public:
  // A message takes further entries until it holds this many bytes; one entry may be larger.
  static constexpr size_t kMessageBytes = 1 << 20;

  // Returns the message for an entry of about `bytes`.
  Message* Next(size_t bytes) {
    const bool back_open = !waiting_.empty() && !(sending_ && waiting_.size() == 1);
    if (!back_open || waiting_.back().bytes + bytes > kMessageBytes)
      waiting_.push_back({TakeSpare(), 0});
    waiting_.back().bytes += bytes + 32;
    bytes_ += bytes + 32;
    return waiting_.back().message.get();
  }

  bool empty() const { return waiting_.empty(); }
  // Bytes of all unsent entries.
  size_t bytes() const { return bytes_; }

  Message* Front() {
    sending_ = true;
    return waiting_.front().message.get();
  }

  void PopSent() {
    sending_ = false;
    bytes_ -= waiting_.front().bytes;
    // Do not keep a message that was once very large.
    if (waiting_.front().bytes <= 2 * kMessageBytes) {
      spare_ = std::move(waiting_.front().message);
      spare_->Clear();
    }
    waiting_.pop_front();
  }

 private:
  struct Waiting {
    std::unique_ptr<Message> message;
    size_t bytes;
  };
  std::unique_ptr<Message> TakeSpare() {
    return spare_ != nullptr ? std::move(spare_) : std::make_unique<Message>();
  }

  std::deque<Waiting> waiting_;
  std::unique_ptr<Message> spare_;
  size_t bytes_ = 0;
  bool sending_ = false;
};

}  // namespace escapement::kv

#endif  // COMMON_KV_WIRE_MESSAGE_QUEUE_H_
