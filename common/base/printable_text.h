// Makes text from outside harmless for readers on a terminal, in a log, or on a page.
//
// Control characters are those of C0 and C1 and DEL (U+0000 to U+001F, U+007F to U+009F): a
// terminal may take them for commands. Direction characters (U+200E, U+200F, U+202A to U+202E,
// U+2066 to U+2069) can show text in another order than it is written.
//
// Pure.

#ifndef COMMON_BASE_PRINTABLE_TEXT_H_
#define COMMON_BASE_PRINTABLE_TEXT_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace escapement {

// Returns valid UTF-8 of at most `bytes_max` bytes, as `string` fields of records require. A
// control character becomes a blank, also a line feed or tab. A direction character becomes a
// question mark, and so does each byte that is not part of valid UTF-8. The text ends before a
// character that does not fit as a whole.
std::string CleanText(absl::string_view bytes, size_t bytes_max);

// True if the text has a control or direction character, or is not valid UTF-8. Text from users is
// refused if so, not changed.
bool HasControlCharacters(absl::string_view text);

// True if the text is valid UTF-8 and only has characters of XML 1.0: U+0009, U+000A, U+000D,
// U+0020 to U+D7FF, U+E000 to U+FFFD and U+10000 to U+10FFFF. SQS takes only these.
bool IsXmlText(absl::string_view text);

// For a terminal. Control and direction characters become \n, \t, \x1b or \u202e, and each byte
// that is not part of valid UTF-8 becomes \xff. A backslash stays as it is.
std::string EscapeForTerminal(absl::string_view text);

// For a whole document of JSON or YAML, or one of its strings. DEL, C1 and direction characters
// become \u009b, and bytes that are not part of valid UTF-8 become question marks. C0 characters
// stay: the writer of the document has escaped those inside strings, and the others are its line
// feeds.
std::string EscapeInsideQuotes(absl::string_view text);

}  // namespace escapement

#endif  // COMMON_BASE_PRINTABLE_TEXT_H_
