// Log: JSON lines on stderr, one object per line, with time, level, service, component, message and
// the given fields.
//
// After StartLogging, a background thread writes the lines from a bounded queue. If the queue is
// full, the oldest lines are lost, so logging never delays work. Before StartLogging, and in tests,
// lines are written at once. Log only rare things: a line per event is a mistake.
//
// Threads: any thread may call Log; only main calls StartLogging and StopLogging.

#ifndef COMMON_BASE_LOG_H_
#define COMMON_BASE_LOG_H_

#include <initializer_list>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace escapement {

enum class LogLevel { kDebug = 0, kInfo = 1, kWarning = 2, kError = 3 };

// A named value. Numbers are written as numbers, everything else as a string.
struct LogField {
  LogField(absl::string_view field_name, absl::string_view text)
      : name(field_name), value(text), quoted(true) {}
  LogField(absl::string_view field_name, const char* text)
      : LogField(field_name, absl::string_view(text)) {}
  LogField(absl::string_view field_name, const std::string& text)
      : LogField(field_name, absl::string_view(text)) {}
  template <typename Number>
  LogField(absl::string_view field_name, Number number)
      : name(field_name), value(absl::StrCat(number)) {}

  std::string name;
  std::string value;
  bool quoted = false;
};

// `component` is the file's room, e.g. "handler.shard". `message` is a fixed sentence; variable
// parts go into fields.
void Log(LogLevel level, absl::string_view component, absl::string_view message,
         std::initializer_list<LogField> fields = {});

// Returns the line that Log writes (without its newline); for tests.
std::string FormatLogLine(absl::Time time, LogLevel level, absl::string_view service,
                          absl::string_view component, absl::string_view message,
                          std::initializer_list<LogField> fields);

// Parses "debug", "info", "warning" or "error"; returns false for any other text.
bool ParseLogLevel(absl::string_view text, LogLevel* level);

// Starts the background thread. From now on lines below `level` are dropped, and every line has
// `service`.
void StartLogging(absl::string_view service, LogLevel level);

// Writes the queued lines and ends the thread; later lines are written at once.
void StopLogging();

}  // namespace escapement

#endif  // COMMON_BASE_LOG_H_
