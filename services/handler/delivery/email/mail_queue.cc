#include "services/handler/delivery/email/mail_queue.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/printable_text.h"

namespace escapement::handler {

void QueuedMail::Answer(DeliveryResult result) const {
  if (result.message.size() > kDeliveryMessageBytesMax)
    result.message = CleanText(result.message, kDeliveryMessageBytesMax);
  sink->OnResult(attempt.tag, std::move(result));
}

void MailQueue::Add(QueuedMail mail) {
  std::unique_ptr<Server>& server = servers_[mail.attempt.context->target_key];
  if (server == nullptr) {
    server = std::make_unique<Server>();
    server->key = mail.attempt.context->target_key;
  }
  server->earliest = std::min(server->earliest, mail.start_by);
  earliest_ = std::min(earliest_, mail.start_by);
  server->waiting.push_back(std::move(mail));
  MarkReady(server.get());
}

std::optional<QueuedMail> MailQueue::Next() {
  while (!ready_.empty()) {
    Server* const server = ready_.front();
    ready_.pop_front();
    server->ready = false;
    if (server->waiting.empty()) {
      ForgetIfUnused(server);
      continue;
    }
    QueuedMail mail = std::move(server->waiting.front());
    server->waiting.pop_front();
    if (server->waiting.empty()) server->earliest = kNeverMicros;
    ++server->active;
    MarkReady(server);
    return mail;
  }
  return std::nullopt;
}

void MailQueue::Done(const std::string& key) {
  const auto found = servers_.find(key);
  CHECK(found != servers_.end()) << "no attempt of this server is active";
  Server* const server = found->second.get();
  --server->active;
  MarkReady(server);
  ForgetIfUnused(server);
}

int MailQueue::Active(const std::string& key) const {
  const auto found = servers_.find(key);
  return found == servers_.end() ? 0 : found->second->active;
}

void MailQueue::MarkReady(Server* server) {
  if (server->ready || server->waiting.empty() || server->active >= active_per_server_max_) return;
  server->ready = true;
  ready_.push_back(server);
}

void MailQueue::ForgetIfUnused(Server* server) {
  if (server->ready || !server->waiting.empty() || server->active > 0) return;
  servers_.erase(std::string(server->key));
}

std::vector<QueuedMail> MailQueue::TakeExpired(MonotonicMicros now) {
  std::vector<QueuedMail> expired;
  if (now < earliest_) return expired;
  earliest_ = kNeverMicros;
  for (auto& [key, server] : servers_) {
    if (server->earliest <= now) {
      std::deque<QueuedMail> kept;
      server->earliest = kNeverMicros;
      for (QueuedMail& mail : server->waiting) {
        if (mail.start_by <= now) {
          expired.push_back(std::move(mail));
          continue;
        }
        server->earliest = std::min(server->earliest, mail.start_by);
        kept.push_back(std::move(mail));
      }
      server->waiting = std::move(kept);
    }
    earliest_ = std::min(earliest_, server->earliest);
  }
  // A server without attempts leaves with its turn, or with its last active attempt.
  return expired;
}

std::vector<QueuedMail> MailQueue::TakeAll() {
  std::vector<QueuedMail> all;
  for (auto& [key, server] : servers_)
    std::move(server->waiting.begin(), server->waiting.end(), std::back_inserter(all));
  ready_.clear();
  servers_.clear();
  earliest_ = kNeverMicros;
  return all;
}

}  // namespace escapement::handler
