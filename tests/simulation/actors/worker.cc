#include "tests/simulation/actors/worker.h"

#include "absl/strings/str_cat.h"

namespace escapement::simulation {

using handler::DeliveryWork;

Worker::Worker(sim::SimNetwork& network, sim::SimProcess& process, std::vector<const Door*> doors,
               WorkHabits habits)
    : network_(network),
      process_(process),
      doors_(std::move(doors)),
      habits_(habits),
      random_(network.world().seed(), "worker") {}

void Worker::After(absl::Duration delay, Closure closure) {
  sim::SimWorld& world = network_.world();
  world.At(world.Elapsed() + delay, process_.state(), world.NewLine(), "worker",
           std::move(closure));
}

void Worker::Arrived(size_t receipt, const Receipt& what) {
  Known& known = known_[what.event_id];
  if (known.finished) return;
  known.open.push_back(works_.size());
  Work work;
  work.receipt = receipt;
  work.on_release = !what.token.empty();
  work.begun = what.time;
  works_.push_back(work);
}

void Worker::Answered(size_t receipt, const Receipt& what) {
  Known& known = known_[what.event_id];
  if (!known.working) {
    std::vector<size_t> ended;
    EndOpen(known, Word::kSucceeded, &ended);
    for (size_t work : ended) works_[work].word = WorkWord::kNone;
    return;
  }
  // The worker still works on an earlier arrival that brought a token. This copy counts as ended
  // now.
  for (auto it = known.open.begin(); it != known.open.end(); ++it) {
    if (works_[*it].receipt != receipt) continue;
    works_[*it].ended = network_.world().Now();
    known.open.erase(it);
    return;
  }
}

DeliveryWork Worker::Accept(size_t receipt, const Receipt& what) {
  Known& known = known_[what.event_id];
  if (known.finished || tidy_) {
    Arrived(receipt, what);
    std::vector<size_t> ended;
    EndOpen(known, Word::kSucceeded, &ended);
    known.finished = true;
    GiveBack(what.token, Word::kSucceeded, std::move(ended));
    return DeliveryWork::kGoesOn;
  }
  Arrived(receipt, what);
  known.tokens.push_back(what.token);
  // An attempt that was delayed in the network may arrive after the next one.
  if (what.attempt >= known.attempt) {
    known.attempt = what.attempt;
    known.token = what.token;
  }
  if (known.working) return DeliveryWork::kGoesOn;
  return Begin(what, known);
}

DeliveryWork Worker::Begin(const Receipt& what, Known& known) {
  known.first_token = what.token;
  known.working = true;
  // Drawn from the attempt's name, so that every sender of an attempt meets the same behaviour.
  sim::SimRandom random(network_.world().seed(),
                        absl::StrCat("work ", what.event_id, "/", what.attempt));
  uint64_t lot = random.Below(1'000'000);
  auto drawn = [&lot](uint32_t share) {
    if (lot < share) return true;
    lot -= share;
    return false;
  };
  const absl::Duration work = random.Between(absl::ZeroDuration(), habits_.work_max);
  const absl::Duration longer = random.Between(absl::ZeroDuration(), habits_.outlives_max);
  const std::string& event_id = what.event_id;
  std::vector<size_t> ended;
  if (drawn(habits_.at_once)) {
    EndOpen(known, Word::kSucceeded, &ended);
    for (size_t index : ended)
      works_[index].word = WorkWord::kNone;  // no answer says that it took effect
    known.finished = true;
    return DeliveryWork::kSucceeded;
  }
  if (drawn(habits_.fails_at_once)) {
    EndOpen(known, Word::kFailed, &ended);
    return DeliveryWork::kFailed;
  }
  if (drawn(habits_.fails)) {
    WorkFor(event_id, work, Word::kFailed, false, 1);
  } else if (drawn(habits_.fails_finally)) {
    WorkFor(event_id, work, Word::kFailedFinally, false, 1);
  } else if (drawn(habits_.releases)) {
    WorkFor(event_id, work, Word::kReleased, false, 1);
  } else if (drawn(habits_.completes_twice)) {
    WorkFor(event_id, work, Word::kSucceeded, false, 2);
  } else if (drawn(habits_.extends)) {
    Extend(event_id, static_cast<int>(absl::ToInt64Seconds(longer)));
  } else if (drawn(habits_.outlives)) {
    WorkFor(event_id, longer, Word::kSucceeded, true, 1);
  } else if (!drawn(habits_.says_nothing)) {
    WorkFor(event_id, work, Word::kSucceeded, false, 1);
  }
  return DeliveryWork::kGoesOn;
}

void Worker::WorkFor(const std::string& event_id, absl::Duration duration, Word word,
                     bool first_token, int times) {
  After(duration,
        [this, event_id, word, first_token, times] { Finish(event_id, word, first_token, times); });
}

void Worker::Extend(const std::string& event_id, int seconds) {
  After(absl::Seconds(1), [this, event_id, seconds] {
    const Known& known = known_[event_id];
    if (!known.working) return;
    if (seconds <= 0) return Finish(event_id, Word::kSucceeded, false, 1);
    v1::ExtendTokensRequest request;
    request.add_tokens(known.token);
    UntilKnown<v1::ExtendTokensResponse>(
        [request](TokenApi& door, Done<v1::ExtendTokensResponse> done) {
          door.ExtendTokens(request, std::move(done));
        },
        [this, token = known.token](const v1::ExtendTokensResponse& response) {
          OnResult(token, response.results(0).status(), {});
        });
    Extend(event_id, seconds - 1);
  });
}

void Worker::EndOpen(Known& known, Word word, std::vector<size_t>* ended) {
  for (size_t index : known.open) {
    works_[index].ended = network_.world().Now();
    works_[index].word = word == Word::kFailed          ? WorkWord::kFailed
                         : word == Word::kFailedFinally ? WorkWord::kFailedFinally
                                                        : WorkWord::kSucceeded;
  }
  *ended = std::exchange(known.open, {});
  known.working = false;
}

void Worker::Finish(const std::string& event_id, Word word, bool first_token, int times) {
  Known& known = known_[event_id];
  if (!known.working) return;  // Tidy has finished it
  std::vector<size_t> ended;
  EndOpen(known, word, &ended);
  known.finished = word != Word::kFailed;
  // The event may have been given several tokens. Only the token of the last arrival counts.
  const std::vector<size_t> last =
      first_token || ended.empty() ? std::vector<size_t>() : std::vector<size_t>{ended.back()};
  for (int i = 0; i < times; ++i)
    GiveBack(first_token ? known.first_token : known.token, word, last);
}

void Worker::GiveBack(const std::string& token, Word word, std::vector<size_t> works) {
  if (word == Word::kReleased) {
    v1::ReleaseTokensRequest request;
    request.add_tokens(token);
    return UntilKnown<v1::ReleaseTokensResponse>(
        [request](TokenApi& door, Done<v1::ReleaseTokensResponse> done) {
          door.ReleaseTokens(request, std::move(done));
        },
        [this, token, works](const v1::ReleaseTokensResponse& response) {
          OnResult(token,
                   response.results_size() == 1 ? response.results(0).status()
                                                : v1::TokenResult::INVALID,
                   works);
        });
  }
  v1::CompleteTokensRequest request;
  v1::TokenCompletion& completion = *request.add_completions();
  completion.set_token(token);
  completion.set_outcome(word == Word::kSucceeded ? v1::TokenCompletion::SUCCEEDED
                                                  : v1::TokenCompletion::FAILED);
  completion.set_final(word == Word::kFailedFinally);
  completion.set_output(word == Word::kSucceeded ? "made" : "work failed");
  UntilKnown<v1::CompleteTokensResponse>(
      [request](TokenApi& door, Done<v1::CompleteTokensResponse> done) {
        door.CompleteTokens(request, std::move(done));
      },
      [this, token, works](const v1::CompleteTokensResponse& response) {
        OnResult(
            token,
            response.results_size() == 1 ? response.results(0).status() : v1::TokenResult::INVALID,
            works);
      });
}

void Worker::OnResult(const std::string& token, v1::TokenResult::Status status,
                      const std::vector<size_t>& works) {
  if (status == v1::TokenResult::DONE) {
    for (size_t work : works) works_[work].took_effect = true;
  } else if (status != v1::TokenResult::STORED && status != v1::TokenResult::NOT_HELD) {
    complaints_.push_back(
        absl::StrCat("token ", token, " was answered by ", v1::TokenResult::Status_Name(status)));
  }
}

template <typename Response>
void Worker::UntilKnown(std::function<void(TokenApi&, Done<Response>)> invoke,
                        std::function<void(const Response&)> done) {
  ++calls_open_;
  const Door& door = *doors_[random_.Below(doors_.size())];
  using Answer = std::shared_ptr<Response>;
  sim::SimCall<Answer, TokenApi>(
      network_, process_.state(), door, absl::Milliseconds(1500),
      [invoke](TokenApi& api, std::function<void(absl::StatusOr<Answer>)> answer) {
        invoke(api, std::move(answer));
      },
      [this, invoke, done](absl::StatusOr<Answer> answer) {
        if (answer.ok()) {
          --calls_open_;
          return done(**answer);
        }
        if (!absl::IsUnavailable(answer.status()) && !absl::IsResourceExhausted(answer.status()) &&
            !absl::IsAborted(answer.status())) {
          complaints_.push_back(absl::StrCat("a token call: ", answer.status().ToString()));
        }
        After(random_.Between(absl::Milliseconds(50), absl::Milliseconds(400)),
              [this, invoke, done] {
                --calls_open_;
                UntilKnown<Response>(invoke, done);
              });
      });
}

void Worker::Tidy() {
  tidy_ = true;
  for (auto& [event_id, known] : known_) {
    if (known.working) Finish(event_id, Word::kSucceeded, false, 1);
    // Finish may have given back an older token only.
    if (known.tokens.size() < 2) continue;
    for (const std::string& token : known.tokens) GiveBack(token, Word::kSucceeded, {});
  }
}

}  // namespace escapement::simulation
