// The chain's records: base/record.h under this folder's names. Payloads have a Solidity ABI form too (abi.h), payloads
// and objects a JSON form (json_codec.h).
#pragma once

#include "base/record.h"

namespace quern::chain::types {

using record::decode_record;
using record::encode_record;
using record::FixedBytesField;
using record::kMaxListItems;
using record::Record;
using record::RecordVector;

}  // namespace quern::chain::types
