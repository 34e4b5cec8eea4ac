// FakeEvents: an EventApi that keeps the events of IngestBatch in memory, and can refuse or delay
// its answers; for tests of what calls it.
//
// Threads: any.

#ifndef SERVICES_MASTER_INGEST_KAFKA_TESTING_FAKE_EVENTS_H_
#define SERVICES_MASTER_INGEST_KAFKA_TESTING_FAKE_EVENTS_H_

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/runtime/runtime.h"
#include "services/master/api/master_apis.h"

namespace escapement::master {

class FakeEvents final : public EventApi {
 public:
  // The event of each name, "tenants/t/events/e".
  using Events = std::map<std::string, v1::IngestEvent>;

  explicit FakeEvents(Runtime& runtime) : executor_(runtime.NewExecutor("events")) {}
  ~FakeEvents() override { executor_->Stop(); }

  // Decides each batch before it is stored; OK stores it. Called under the lock.
  void RefuseBy(std::function<absl::Status(const v1::IngestRequest&)> refuse) {
    absl::MutexLock lock(&mutex_);
    refuse_ = std::move(refuse);
  }
  // From now on batches are stored, and not answered until ReleaseAnswers. With a parent, such as
  // "tenants/t", only its batches.
  void HoldAnswers(std::string parent = "") {
    absl::MutexLock lock(&mutex_);
    held_ = true;
    held_parent_ = std::move(parent);
  }
  void ReleaseAnswers() {
    absl::MutexLock lock(&mutex_);
    held_ = false;
    for (Closure& answer : waiting_) executor_->Post(std::move(answer));
    waiting_.clear();
  }

  // Waits until `done` is true of the events and the number of batches, refused ones included.
  // False: it is not within two minutes; on a busy machine a group may need half a minute to form.
  bool Await(const std::function<bool(const Events&, int batches)>& done) {
    absl::MutexLock lock(&mutex_);
    const auto condition = [&]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
      return done(events_, batches_);
    };
    return mutex_.AwaitWithTimeout(absl::Condition(&condition), absl::Minutes(2));
  }
  bool AwaitCount(size_t count) {
    return Await([count](const Events& events, int) { return events.size() >= count; });
  }
  Events events() const {
    absl::MutexLock lock(&mutex_);
    return events_;
  }
  int batches() const {
    absl::MutexLock lock(&mutex_);
    return batches_;
  }
  int largest_batch() const {
    absl::MutexLock lock(&mutex_);
    return largest_batch_;
  }

  void IngestBatch(std::shared_ptr<const v1::IngestRequest> request, IngestOptions,
                   Done<v1::IngestResponse> done) override {
    absl::MutexLock lock(&mutex_);
    ++batches_;
    largest_batch_ = std::max(largest_batch_, request->events_size());
    const absl::Status refusal = refuse_ == nullptr ? absl::OkStatus() : refuse_(*request);
    absl::StatusOr<v1::IngestResponse> response = v1::IngestResponse();
    if (refusal.ok()) {
      response = Store(*request);
    } else {
      response = refusal;
    }
    Closure answer = [response = std::move(response), done = std::move(done)]() mutable {
      done(std::move(response));
    };
    if (held_ && (held_parent_.empty() || held_parent_ == request->parent())) {
      waiting_.push_back(std::move(answer));
    } else {
      executor_->Post(std::move(answer));
    }
  }

  // From now on, events that exist count as cancelled.
  void CancelAll() {
    absl::MutexLock lock(&mutex_);
    all_cancelled_ = true;
  }

  void CreateEvent(v1::CreateEventRequest, Done<v1::Event>) override {}
  void BatchCreateEvents(v1::BatchCreateEventsRequest,
                         Done<v1::BatchCreateEventsResponse>) override {}
  void GetEvent(v1::GetEventRequest, Done<v1::Event>) override {}
  void ListEvents(v1::ListEventsRequest, Done<v1::ListEventsResponse>) override {}
  void UpsertEvent(v1::UpsertEventRequest, Done<v1::Event>) override {}
  void UpdateEvent(v1::UpdateEventRequest, Done<v1::Event>) override {}
  void CancelEvent(v1::CancelEventRequest, Done<v1::Event>) override {}

 private:
  v1::IngestResponse Store(const v1::IngestRequest& request) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    v1::IngestResponse response;
    for (int i = 0; i < request.events_size(); ++i) {
      const v1::IngestEvent& event = request.events(i);
      const std::string name = absl::StrCat(request.parent(), "/events/", event.event_id());
      if (event.mode() == v1::Event::CANCEL) {
        Cancel(i, name, response);
        continue;
      }
      const bool fresh = events_.emplace(name, event).second;
      if (!fresh && event.mode() == v1::Event::UPSERT) {
        events_[name] = event;
        response.add_replaced_positions(i);
        continue;
      }
      if (!fresh) response.add_existing_positions(i);
      if (!fresh && all_cancelled_) response.add_cancelled_positions(i);
    }
    response.set_existing_count(response.existing_positions_size());
    response.set_created_count(request.events_size() - response.existing_count() -
                               response.replaced_positions_size() - response.ended_count() -
                               response.ignored_size());
    return response;
  }
  void Cancel(int position, const std::string& name, v1::IngestResponse& response)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (events_.erase(name) > 0) return response.set_ended_count(response.ended_count() + 1);
    v1::IgnoredEvent& ignored = *response.add_ignored();
    ignored.set_position(position);
    ignored.set_code(static_cast<int>(absl::StatusCode::kNotFound));
    ignored.set_reason("RESOURCE_NOT_FOUND");
  }

  const std::shared_ptr<Executor> executor_;
  mutable absl::Mutex mutex_;
  std::function<absl::Status(const v1::IngestRequest&)> refuse_ ABSL_GUARDED_BY(mutex_);
  bool held_ ABSL_GUARDED_BY(mutex_) = false;
  std::string held_parent_ ABSL_GUARDED_BY(mutex_);  // empty: all
  std::vector<Closure> waiting_ ABSL_GUARDED_BY(mutex_);
  Events events_ ABSL_GUARDED_BY(mutex_);
  bool all_cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  int batches_ ABSL_GUARDED_BY(mutex_) = 0;
  int largest_batch_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace escapement::master

#endif  // SERVICES_MASTER_INGEST_KAFKA_TESTING_FAKE_EVENTS_H_
