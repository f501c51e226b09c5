// JSON values as text at the end of a string that grows, without a text of each value in between. What Value::dump()
// is made of; used where answers are put together. Pure; thread-safe.
#pragma once

#include "base/json.h"

namespace quern {
inline namespace base {
namespace json {

// The same bytes as value.dump().
void append(std::string& out, const Value& value);
void append_string(std::string& out, std::string_view text);

}  // namespace json
}  // namespace base
}  // namespace quern
