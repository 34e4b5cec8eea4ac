// Reads texts of the elements that answers of AWS (STS, S3) have.
//
// It is no general reader of XML: an element is found by its tag, which must have no attributes,
// and must not hold another one of its name. Comments and CDATA are not known.
//
// Pure.

#ifndef COMMON_BASE_XML_TEXT_H_
#define COMMON_BASE_XML_TEXT_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace escapement {

// The content of each element of this name, in order, as it is written.
std::vector<absl::string_view> XmlElements(absl::string_view xml, absl::string_view name);

// The text of the first element of this name, with its references (&amp; &#13; &#xD;) resolved; ""
// if there is none. A reference that is unknown stays as it is.
std::string XmlText(absl::string_view xml, absl::string_view name);

// The text as the content of an element.
std::string EscapeXml(absl::string_view text);

}  // namespace escapement

#endif  // COMMON_BASE_XML_TEXT_H_
