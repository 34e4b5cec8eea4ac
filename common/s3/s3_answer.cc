#include "common/s3/s3_answer.h"

#include <cstddef>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/printable_text.h"
#include "common/base/xml_text.h"

namespace escapement {
namespace {

constexpr size_t kErrorBytesMax = 512;

absl::Status Malformed(absl::string_view what) {
  return absl::UnavailableError(absl::StrCat("S3: the answer is no ", what));
}

bool AsksToTryAgain(long http_status, absl::string_view code) {
  return http_status == 429 || http_status >= 500 || code == "SlowDown" ||
         code == "RequestTimeout" || code == "InternalError" || code == "OperationAborted";
}

// The parameters of the next page, from the elements that have their values.
std::vector<std::pair<std::string, std::string>> NextPage(
    absl::string_view body, const std::vector<std::pair<const char*, const char*>>& fields) {
  if (XmlText(body, "IsTruncated") != "true") return {};
  std::vector<std::pair<std::string, std::string>> next;
  for (const auto& [parameter, element] : fields)
    next.emplace_back(parameter, XmlText(body, element));
  return next;
}

}  // namespace

std::string S3ErrorCode(const S3Answer& answer) {
  // The completion of an upload may answer 200 with an error. The keys of a list are escaped.
  return absl::StrContains(answer.body, "<Error>") ? XmlText(answer.body, "Code") : "";
}

absl::Status StatusOf(const S3Answer& answer) {
  const std::string code = S3ErrorCode(answer);
  if (answer.http_status / 100 == 2 && code.empty()) return absl::OkStatus();
  const std::string text =
      CleanText(code.empty() ? absl::StrCat("S3: HTTP ", answer.http_status)
                             : absl::StrCat("S3: ", code, ": ", XmlText(answer.body, "Message")),
                kErrorBytesMax);
  if (AsksToTryAgain(answer.http_status, code)) return absl::UnavailableError(text);
  if (answer.http_status == 404 || absl::StartsWith(code, "NoSuch"))
    return absl::NotFoundError(text);
  if (answer.http_status == 401 || answer.http_status == 403)
    return absl::PermissionDeniedError(text);
  return absl::FailedPreconditionError(text);
}

absl::StatusOr<S3Page<S3Object>> ReadObjects(absl::string_view body) {
  if (!absl::StrContains(body, "</ListBucketResult>")) return Malformed("list of objects");
  S3Page<S3Object> page;
  for (const absl::string_view each : XmlElements(body, "Contents")) {
    S3Object object = {.key = XmlText(each, "Key")};
    if (object.key.empty() || !absl::SimpleAtoi(XmlText(each, "Size"), &object.bytes))
      return Malformed("list of objects");
    page.found.push_back(std::move(object));
  }
  page.next = NextPage(body, {{"continuation-token", "NextContinuationToken"}});
  return page;
}

absl::StatusOr<S3Page<S3Upload>> ReadUploads(absl::string_view body) {
  if (!absl::StrContains(body, "</ListMultipartUploadsResult>"))
    return Malformed("list of uploads");
  S3Page<S3Upload> page;
  for (const absl::string_view each : XmlElements(body, "Upload")) {
    S3Upload upload = {.key = XmlText(each, "Key"), .id = XmlText(each, "UploadId")};
    if (upload.key.empty() || upload.id.empty()) return Malformed("list of uploads");
    page.found.push_back(std::move(upload));
  }
  page.next =
      NextPage(body, {{"key-marker", "NextKeyMarker"}, {"upload-id-marker", "NextUploadIdMarker"}});
  return page;
}

absl::StatusOr<std::string> ReadUploadId(absl::string_view body) {
  std::string id = XmlText(body, "UploadId");
  if (id.empty()) return Malformed("id of an upload");
  return id;
}

std::string CompleteUploadBody(const std::vector<std::string>& etags) {
  std::string body = "<CompleteMultipartUpload>";
  for (size_t i = 0; i < etags.size(); ++i) {
    absl::StrAppend(&body, "<Part><PartNumber>", i + 1, "</PartNumber><ETag>", EscapeXml(etags[i]),
                    "</ETag></Part>");
  }
  return body.append("</CompleteMultipartUpload>");
}

}  // namespace escapement
