// Log: JSON lines on stderr, one object a line: time, level, service, component, message, and the
// fields given.
//
// Lines are handed to a background thread through a bounded queue once StartLogging was called;
// when the queue is full the oldest lines are lost, so logging never holds up work. Before that,
// and in tests, lines are written at once. Log rare things only: a line per event is a mistake.
//
// Threads: Log from any thread; StartLogging and StopLogging from main.

#ifndef COMMON_SERVICE_LOG_H_
#define COMMON_SERVICE_LOG_H_

#include <initializer_list>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace escapement {

enum class LogLevel { kDebug = 0, kInfo = 1, kWarning = 2, kError = 3 };

// A named value; numbers are written as text of a number, everything else as a string.
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

// `component` is the file's room, e.g. "handler.shard"; `message` a fixed sentence, what varies
// goes into fields.
void Log(LogLevel level, absl::string_view component, absl::string_view message,
         std::initializer_list<LogField> fields = {});

// The line that Log writes (without its newline); for tests.
std::string FormatLogLine(absl::Time time, LogLevel level, absl::string_view service,
                          absl::string_view component, absl::string_view message,
                          std::initializer_list<LogField> fields);

// "debug", "info", "warning", "error"; false if `text` is none of them.
bool ParseLogLevel(absl::string_view text, LogLevel* level);

// Lines below `level` are dropped from now on; `service` shows in every line. Starts the background
// thread.
void StartLogging(absl::string_view service, LogLevel level);

// Writes what is queued and ends the thread; later lines are written at once.
void StopLogging();

}  // namespace escapement

#endif  // COMMON_SERVICE_LOG_H_
