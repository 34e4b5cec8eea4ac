#include "common/base/log.h"

#include <spdlog/async.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <cstdio>
#include <memory>

#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "common/base/printable_text.h"

namespace escapement {
namespace {

constexpr size_t kQueueLines = 8192;
constexpr absl::string_view kLevelNames[] = {"debug", "info", "warning", "error"};

// The process's one logger. Log lines are the exception to "no globals", because no decision
// depends on them.
struct Sink {
  std::atomic<int> level{static_cast<int>(LogLevel::kInfo)};
  std::string service;
  std::shared_ptr<spdlog::details::thread_pool> pool;
  std::shared_ptr<spdlog::async_logger> logger;
};

Sink& GlobalSink() {
  static Sink* sink = new Sink;
  return *sink;
}

void AppendJsonString(std::string* out, absl::string_view text) {
  out->push_back('"');
  for (const char c : text) {
    switch (c) {
      case '"':
        *out += "\\\"";
        break;
      case '\\':
        *out += "\\\\";
        break;
      case '\n':
        *out += "\\n";
        break;
      case '\t':
        *out += "\\t";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          absl::StrAppendFormat(out, "\\u%04x", static_cast<int>(c));
        } else {
          out->push_back(c);
        }
    }
  }
  out->push_back('"');
}

}  // namespace

std::string FormatLogLine(absl::Time time, LogLevel level, absl::string_view service,
                          absl::string_view component, absl::string_view message,
                          std::initializer_list<LogField> fields) {
  std::string line = absl::StrCat(
      "{\"time\":\"", absl::FormatTime("%E4Y-%m-%dT%H:%M:%E6SZ", time, absl::UTCTimeZone()),
      "\",\"level\":\"", kLevelNames[static_cast<int>(level)], "\",\"service\":");
  AppendJsonString(&line, service);
  line += ",\"component\":";
  AppendJsonString(&line, component);
  line += ",\"message\":";
  AppendJsonString(&line, message);
  for (const LogField& field : fields) {
    line += ',';
    AppendJsonString(&line, field.name);
    line += ':';
    // JSON has no infinities.
    const bool number =
        !field.quoted && field.value.find_first_not_of("+-.0123456789e") == std::string::npos;
    if (number) {
      line += field.value;
    } else {
      AppendJsonString(&line, field.value);
    }
  }
  line += '}';
  // Text from outside is logged too, and a terminal must not take it for commands.
  return EscapeInsideQuotes(line);
}

void Log(LogLevel level, absl::string_view component, absl::string_view message,
         std::initializer_list<LogField> fields) {
  Sink& sink = GlobalSink();
  if (static_cast<int>(level) < sink.level.load(std::memory_order_relaxed)) return;
  std::string line = FormatLogLine(absl::Now(), level, sink.service, component, message, fields);
  if (sink.logger != nullptr) {
    sink.logger->log(spdlog::level::info, line);
  } else {
    line += '\n';
    std::fwrite(line.data(), 1, line.size(), stderr);
  }
}

bool ParseLogLevel(absl::string_view text, LogLevel* level) {
  for (int i = 0; i < 4; ++i) {
    if (text == kLevelNames[i]) {
      *level = static_cast<LogLevel>(i);
      return true;
    }
  }
  return false;
}

void StartLogging(absl::string_view service, LogLevel level) {
  Sink& sink = GlobalSink();
  sink.service = std::string(service);
  sink.level = static_cast<int>(level);
  sink.pool = std::make_shared<spdlog::details::thread_pool>(kQueueLines, 1);
  sink.logger = std::make_shared<spdlog::async_logger>(
      "log", std::make_shared<spdlog::sinks::stderr_sink_mt>(), sink.pool,
      spdlog::async_overflow_policy::overrun_oldest);
  sink.logger->set_pattern("%v");
  sink.logger->flush_on(spdlog::level::info);
}

void StopLogging() {
  Sink& sink = GlobalSink();
  // The pool's destructor writes the queued lines.
  sink.logger.reset();
  sink.pool.reset();
}

}  // namespace escapement
