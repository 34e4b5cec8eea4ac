// Text from outside, made harmless for whoever reads it: on a terminal, in a log, on a page.
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

// Valid UTF-8 of at most `bytes_max` bytes, as `string` fields of records must be. A control
// character becomes a blank, line feeds and tabs included. A direction character, and each byte
// that is not part of valid UTF-8, becomes a question mark. The text ends before a character that
// does not fit whole.
std::string CleanText(absl::string_view bytes, size_t bytes_max);

// True if the text holds a control or direction character, or is not valid UTF-8. For text that
// users give: it is refused rather than changed.
bool HasControlCharacters(absl::string_view text);

// For a terminal: control and direction characters as \n, \t, \x1b or \u202e, and each byte that is
// not part of valid UTF-8 as \xff. A backslash stays as it is.
std::string EscapeForTerminal(absl::string_view text);

// For a whole document of JSON or YAML, or one of its strings: DEL, C1 and direction characters as
// \u009b, bytes that are not part of valid UTF-8 as question marks. Whoever wrote the document has
// escaped the characters of C0 inside its strings, and those between them are its line feeds.
std::string EscapeInsideQuotes(absl::string_view text);

}  // namespace escapement

#endif  // COMMON_BASE_PRINTABLE_TEXT_H_
