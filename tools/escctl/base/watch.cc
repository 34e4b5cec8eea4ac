#include "tools/escctl/base/watch.h"

#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace escapement::escctl {
namespace {

constexpr absl::Duration kPause = absl::Seconds(1);

bool MayPass(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::UNAVAILABLE ||
         status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED;
}

std::vector<std::pair<std::string, std::string>> TextsOf(const Reading& reading,
                                                         OutputFormat format) {
  std::vector<std::pair<std::string, std::string>> texts;
  for (size_t i = 0; i < reading.rows.size(); ++i) {
    texts.emplace_back(reading.rows[i].at(0),
                       format == OutputFormat::kTable
                           ? absl::StrJoin(reading.rows[i], std::string(1, '\0'))
                           : FormatMessage(*reading.messages[i], format));
  }
  return texts;
}

}  // namespace

Changes::Result Changes::Take(const std::vector<std::pair<std::string, std::string>>& texts) {
  Result result;
  std::map<std::string, std::string> now;
  for (size_t i = 0; i < texts.size(); ++i) {
    const auto& [name, text] = texts[i];
    const auto former = last_.find(name);
    if (former == last_.end() || former->second != text) result.changed.push_back(i);
    now[name] = text;
  }
  for (const auto& [name, text] : last_) {
    if (!now.contains(name)) result.gone.push_back(name);
  }
  last_ = std::move(now);
  return result;
}

void WatchFlags::Add(CLI::App& command) {
  command.add_flag("-w,--watch", watch_,
                   "stay, and print the rows that change, until it is interrupted");
  command.add_option("--watch-count", readings_max_, "number of readings; for tests")->group("");
}

void WatchFlags::Run(Session& session, const Row& header,
                     const std::function<Reading()>& read) const {
  Changes changes;
  for (int readings = 0; readings_max_ == 0 || readings < readings_max_; ++readings) {
    if (readings > 0) absl::SleepFor(kPause);
    const Reading reading = read();
    if (!reading.status.ok()) {
      session.Fail(reading.status);
      if (readings == 0 || !MayPass(reading.status)) return;
      continue;
    }
    const auto texts = TextsOf(reading, session.format());
    const Changes::Result result = changes.Take(texts);
    if (session.format() == OutputFormat::kTable) {
      // The columns are as wide as those of the whole table.
      const std::vector<std::string> lines =
          absl::StrSplit(FormatTable(header, reading.rows), '\n');
      if (readings == 0) session.Print(absl::StrCat(lines[0], "\n"));
      for (const size_t i : result.changed) session.Print(absl::StrCat(lines[i + 1], "\n"));
    } else {
      for (const size_t i : result.changed) {
        session.Print(
            absl::StrCat(session.format() == OutputFormat::kYaml ? "---\n" : "", texts[i].second));
      }
    }
    for (const std::string& name : result.gone) session.Say(absl::StrCat("gone: ", name));
    if (std::fflush(stdout) != 0 || reading.last) return;
  }
}

}  // namespace escapement::escctl
