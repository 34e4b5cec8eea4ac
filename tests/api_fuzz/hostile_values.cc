#include "tests/api_fuzz/hostile_values.h"

#include <limits>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace escapement::api_fuzz {
namespace {

using google::protobuf::FieldDescriptor;

constexpr int64_t kInt64Max = std::numeric_limits<int64_t>::max();
constexpr int64_t kInt64Min = std::numeric_limits<int64_t>::min();
constexpr int32_t kInt32Max = std::numeric_limits<int32_t>::max();
constexpr int32_t kInt32Min = std::numeric_limits<int32_t>::min();
constexpr int kPayloadBytesMax = 262'144;

}  // namespace

std::string HostileValues::HostileText() {
  static const auto* const texts = new std::vector<std::string>{
      "",
      " ",
      "\t",
      std::string("\0", 1),
      "\x7f",
      "\x1b[2J\x1b]0;title\x07",
      "a\nb\r\n",
      "\xc2\x9b"
      "31m",
      "\xe2\x80\xae"
      "abc",
      "\xef\xbb\xbf",
      "\xf0\x9f\x95\xb0",
      "../../etc/passwd",
      "tenants/default",
      "tenants/other",
      "tenants/default/schedules/",
      "tenants//schedules/a",
      "%s%n",
      "*",
      "-",
      "null",
      "99999999999999999999",
      "2026-01-01T00:00:00Z",
      "Zm9v",
      "=",
  };
  switch (Below(8)) {
    case 0:
      return std::string(OneOf<size_t>({63, 64, 200, 201, 255, 256, 1024, 1025, 2049, 5000}), 'a');
    case 1: {
      std::string text;
      for (uint64_t i = OneOf<uint64_t>({64, 201, 3000}); i > 0; --i) text += "\xe2\x82\xac";
      return text;
    }
    default:
      return OneOf(*texts);
  }
}

std::string HostileValues::Id() {
  if (Chance(15)) return absl::StrCat("again-", Below(5));
  return absl::StrCat("id-", ++ids_);
}

std::string HostileValues::Text(const FieldDescriptor& field, bool hostile) {
  if (hostile && Chance(70)) return HostileText();
  const std::string& name = field.name();
  const std::string& holder = field.containing_type()->name();
  if (absl::EndsWith(name, "_id")) return Chance(15) ? "" : Id();
  if (name == "cron" || name == "exclusions") {
    if (hostile)
      return OneOf<std::string>({"* * * * * * *", "0 0 31 2 *", "@every 1s", "L W #", "60 * * * *",
                                 "*/0 * * * *", "0 0 1-31/99999999999 * *", "? ? ? ? ?"});
    return OneOf<std::string>({"*/5 * * * * *", "0 3 * * *", "@daily", "30 2 L * *", "0 0 1 1 *"});
  }
  if (name == "time_zone")
    return hostile ? OneOf<std::string>({"europe/berlin", "UTC+1", "../UTC", "Mars/Base"})
                   : OneOf<std::string>({"", "UTC", "Europe/Berlin", "Asia/Kolkata"});
  if (name == "uri") {
    if (hostile)
      return OneOf<std::string>({"http://", "ftp://x", "http://u:p@h/", "http://h/#f",
                                 "https://[::1", "http://127.0.0.1:99999/", "dns:///",
                                 "unix:/tmp/x"});
    return holder == "GrpcTarget" ? OneOf(grpc_uris_) : OneOf(http_uris_);
  }
  if (name == "method") return OneOf<std::string>({"", "POST", "PUT", "PATCH"});
  if (name == "content_type") return OneOf<std::string>({"", "application/json", "text/plain"});
  if (name == "filter")
    return OneOf<std::string>({"", "", "outcome=SUCCEEDED", "outcome=FAILED", "outcome=EXPIRED",
                               "state=RUNNING", "name=\"id-1*\"", "target=http", "labels.a=b1",
                               "due_time<\"2100-01-01T00:00:00Z\""});
  if (name == "order_by")
    return OneOf<std::string>({"", "", "name", "due_time", "complete_time desc"});
  if (name == "etag" || name == "page_token" || name == "policy" || name == "calendar") return "";
  if (name == "dates" || name == "except_dates")
    return OneOf<std::string>({"2027-01-01", "2027-12-25", "2028-02-29"});
  if (name == "rules") return OneOf<std::string>({"* * SAT,SUN", "25 12 *", "L * *"});
  if (name == "ics") return OneOf<std::string>({"", "BEGIN:VCALENDAR\nEND:VCALENDAR"});
  if (name == "hour") return OneOf<std::string>({"*", "3", "*/2"});
  if (name == "minute" || name == "second") return OneOf<std::string>({"*", "0", "*/10"});
  if (holder == "CronFields") return "*";
  if (holder == "HeadersEntry" && name == "key")
    return OneOf<std::string>({"X-A", "x-b", "Accept"});
  return OneOf<std::string>({"a", "b1", "some text", "\xc3\xa9t\xc3\xa9"});
}

std::string HostileValues::Bytes(bool hostile) {
  if (hostile && Chance(5))
    return std::string(OneOf<size_t>({4096, 4097, kPayloadBytesMax, kPayloadBytesMax + 1}), 'p');
  return OneOf<std::string>({"", "{}", "b", std::string("\0\xff\x1b", 3), std::string(300, 'p')});
}

int64_t HostileValues::Integer(const FieldDescriptor& field, bool hostile) {
  const std::string& name = field.name();
  if (name == "event_count") {  // valid counts are really delivered, so they stay small
    return hostile ? OneOf<int64_t>({0, -1, 100'000'001, kInt64Max, kInt64Min})
                   : OneOf<int64_t>({0, 1, 2, 5});
  }
  if (absl::EndsWith(name, "_micros") && Chance(70)) {
    return absl::ToUnixMicros(absl::Now()) +
           OneOf<int64_t>({-1'000'000, 0, 1'000'000, int64_t{3600} * 1'000'000});
  }
  if (hostile) {
    return OneOf<int64_t>({0, 1, -1, 9, 10, 63, 64, 100, 101, 1000, 1001, 100'000, 100'001,
                           10'000'000, 10'000'001, kInt32Max, kInt32Min, kInt64Max, kInt64Min});
  }
  if (absl::StartsWith(name, "max_")) return OneOf<int64_t>({1, 2, 5});
  return OneOf<int64_t>({0, 1, 2, 3, 5, 7});
}

double HostileValues::Real(bool hostile) {
  if (!hostile) return OneOf<double>({1, 2, 10});
  return OneOf<double>({0, -0.0, -1, 1e-6, 1e-7, 1e6, 1e6 + 1, 1e308, 5e-324,
                        std::numeric_limits<double>::infinity(),
                        std::numeric_limits<double>::quiet_NaN()});
}

void HostileValues::Time(const FieldDescriptor& field, bool hostile,
                         google::protobuf::Message* value) {
  const bool instant = field.message_type()->name() == "Timestamp";
  int64_t seconds = instant ? absl::ToUnixSeconds(absl::Now()) : 0;
  int32_t nanos = 0;
  if (hostile) {
    seconds = OneOf<int64_t>({0, 1, -1, seconds, 86'400, 2'592'000, 2'592'001, 31'622'400,
                              315'576'000'000, 315'576'000'001, -62'135'596'800, -62'135'596'801,
                              7'258'118'399, 7'258'118'400, 253'402'300'799, 253'402'300'800,
                              kInt64Max, kInt64Min});
    nanos = OneOf<int32_t>({0, 1, -1, 999, 999'999'999, 1'000'000'000, kInt32Max, kInt32Min});
  } else if (instant) {
    const bool begins = absl::StrContains(field.name(), "start");
    seconds += begins ? OneOf<int64_t>({-7200, -60, -10}) : OneOf<int64_t>({-1, 2, 60, 86'400});
    if (field.name() == "end_time" && field.containing_type()->name() != "Schedule")
      seconds = absl::ToUnixSeconds(absl::Now()) - 1;
  } else {
    seconds = OneOf<int64_t>({1, 5, 10, 60, 3600});
  }
  const auto* reflection = value->GetReflection();
  reflection->SetInt64(value, value->GetDescriptor()->FindFieldByName("seconds"), seconds);
  reflection->SetInt32(value, value->GetDescriptor()->FindFieldByName("nanos"), nanos);
}

std::string HostileValues::Damage(std::string bytes) {
  if (bytes.empty()) return "\xff";
  switch (Below(4)) {
    case 0:
      bytes.resize(Below(bytes.size()));
      break;
    case 1:
      bytes[Below(bytes.size())] = static_cast<char>(Below(256));
      break;
    case 2:
      bytes +=
          OneOf<std::string>({"\xff", std::string(12, '\xff'), "\x0a\x02\xc3\x28", "\x0b", "\x0c"});
      break;
    default:
      bytes.insert(Below(bytes.size()), "\xed\xa0\x80");
  }
  return bytes;
}

}  // namespace escapement::api_fuzz
