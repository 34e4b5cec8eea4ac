#include "tests/simulation/actors/accountant.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "escapement/v1/run_service.pb.h"
#include "google/protobuf/util/time_util.h"

namespace escapement::simulation {
namespace {

using google::protobuf::util::TimeUtil;

google::protobuf::Timestamp StampOf(absl::Time time) {
  return TimeUtil::MicrosecondsToTimestamp(absl::ToUnixMicros(time));
}

absl::Time TimeOf(const google::protobuf::Timestamp& stamp) {
  return absl::FromUnixMicros(TimeUtil::TimestampToMicroseconds(stamp));
}

// Schedule and occurrence in the name of a run.
std::pair<std::string, std::string> PartsOf(const std::string& run) {
  const std::vector<std::string> parts = absl::StrSplit(run, '/');
  return parts.size() == 6 ? std::pair(parts[3], parts[5]) : std::pair<std::string, std::string>();
}

}  // namespace

void Accountant::Rest() {
  calls_.After(calls_.Between(options_.rest_min, options_.rest_max), [this] { Ask(); });
}

void Accountant::Ask() {
  AccountSeen account;
  account.called = calls_.Now();
  account.last = finishing_;
  account.end = account.called + absl::Seconds(30);
  account.begin = finishing_ ? options_.begin - absl::Minutes(1) : account.end - options_.range;
  v1::ListOccurrencesRequest request;
  request.set_parent(calls_.parent() + "/schedules/-");
  *request.mutable_start_time() = StampOf(account.begin);
  *request.mutable_end_time() = StampOf(account.end);
  request.set_page_size(1 + static_cast<int32_t>(calls_.random().Below(400)));
  accounts_.push_back(std::move(account));
  AskPage(std::move(request));
}

void Accountant::AskPage(v1::ListOccurrencesRequest request) {
  calls_.UntilKnown<v1::ListOccurrencesResponse>(
      [request](MasterApis& master, auto done) {
        master.runs->ListOccurrences(request, std::move(done));
      },
      [this, request](absl::StatusOr<v1::ListOccurrencesResponse> page) mutable {
        AccountSeen& account = accounts_.back();
        if (!page.ok()) {
          complaints_.push_back(absl::StrCat("an account was answered ", page.status().ToString()));
          finished_ = account.last;
          accounts_.pop_back();
          if (!finished_) Rest();
          return;
        }
        for (const v1::Occurrence& occurrence : page->occurrences()) {
          AccountedRun& run = account.runs.emplace_back();
          std::tie(run.schedule, run.occurrence) = PartsOf(occurrence.run());
          run.nominal = TimeOf(occurrence.nominal_time());
          run.result = v1::Occurrence::Result_Name(occurrence.result());
          run.reason = occurrence.reason();
        }
        for (const auto& count : page->counts()) account.counted += count.count();
        if (page->next_page_token().empty()) return OnAccount();
        request.set_page_token(page->next_page_token());
        AskPage(std::move(request));
      });
}

void Accountant::OnAccount() {
  AccountSeen& account = accounts_.back();
  account.answered = calls_.Now();
  if (!account.last) return Rest();
  for (const AccountedRun& run : account.runs) {
    if (schedules_.empty() || schedules_.back() != run.schedule) schedules_.push_back(run.schedule);
  }
  ListRuns(0, "");
}

void Accountant::ListRuns(size_t schedule, std::string page_token) {
  if (schedule == schedules_.size()) return GetRuns(0);
  v1::ListRunsRequest request;
  request.set_parent(absl::StrCat(calls_.parent(), "/schedules/", schedules_[schedule]));
  request.set_page_size(1000);
  request.set_page_token(page_token);
  calls_.UntilKnown<v1::ListRunsResponse>(
      [request](MasterApis& master, auto done) { master.runs->ListRuns(request, std::move(done)); },
      [this, schedule](absl::StatusOr<v1::ListRunsResponse> page) {
        if (!page.ok()) {
          complaints_.push_back(absl::StrCat("a list of runs: ", page.status().ToString()));
          return ListRuns(schedule + 1, "");
        }
        for (const v1::Run& run : page->runs()) {
          ListedRun& listed = accounts_.back().listed.emplace_back();
          std::tie(listed.schedule, listed.occurrence) = PartsOf(run.name());
          listed.state = v1::Run::State_Name(run.state());
          listed.failed = run.failed_count() + run.expired_count() > 0;
        }
        if (page->next_page_token().empty()) return ListRuns(schedule + 1, "");
        ListRuns(schedule, page->next_page_token());
      });
}

void Accountant::GetRuns(size_t next) {
  AccountSeen& account = accounts_.back();
  if (next >= account.runs.size()) {
    account.compared = calls_.Now();
    finished_ = true;
    return;
  }
  const AccountedRun& run = account.runs[next];
  const size_t step = std::max<size_t>(1, account.runs.size() / options_.gets_max);
  v1::GetRunRequest request;
  request.set_name(
      absl::StrCat(calls_.parent(), "/schedules/", run.schedule, "/runs/", run.occurrence));
  calls_.UntilKnown<v1::Run>(
      [request](MasterApis& master, auto done) { master.runs->GetRun(request, std::move(done)); },
      [this, next, step](absl::StatusOr<v1::Run> got) {
        AccountedRun& run = accounts_.back().runs[next];
        run.got = got.ok() ? v1::Run::State_Name(got->state()) : "none";
        run.got_failed = got.ok() && got->failed_count() + got->expired_count() > 0;
        GetRuns(next + step);
      });
}

}  // namespace escapement::simulation
