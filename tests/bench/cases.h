// The cases, by file. Internal to quern-bench.
#pragma once

#include "bench/harness.h"

namespace quern::bench {

void bench_matmul(Bench& bench);  // tensor_cases.cpp
void bench_imatmul(Bench& bench);
void bench_elementwise(Bench& bench);
void bench_row_sums(Bench& bench);
void bench_hostile(Bench& bench);   // hostile_cases.cpp
void bench_training(Bench& bench);  // training_cases.cpp
void bench_reference_transformer(Bench& bench);
void bench_bytes(Bench& bench);
void bench_convolution(Bench& bench);
void bench_commitment(Bench& bench);
void bench_tapped(Bench& bench);
void bench_prediction_threads(Bench& bench);
void bench_prediction(Bench& bench);  // prediction_cases.cpp
void bench_demand(Bench& bench);      // demand_cases.cpp
void bench_publish(Bench& bench);     // worker_cases.cpp
void bench_states_on_disk(Bench& bench);
void bench_line(Bench& bench);      // link_cases.cpp
void bench_reaction(Bench& bench);  // chain_cases.cpp
void bench_open_tasks(Bench& bench);
void bench_leaf(Bench& bench);  // dispute_cases.cpp
void bench_dispute(Bench& bench);
void bench_blocks(Bench& bench);      // block_cases.cpp
void bench_transition(Bench& bench);  // state_cases.cpp
void bench_tries(Bench& bench);
void bench_tries_million(Bench& bench);
void bench_codecs(Bench& bench);       // codec_cases.cpp
void bench_precompiles(Bench& bench);  // precompile_cases.cpp
void bench_consensus(Bench& bench);    // consensus_cases.cpp
void bench_handshake(Bench& bench);    // network_cases.cpp
void bench_channel(Bench& bench);
void bench_fetch(Bench& bench);       // fetch_cases.cpp
void bench_fragments(Bench& bench);   // fragment_cases.cpp
void bench_votes(Bench& bench);       // vote_cases.cpp
void bench_end_to_end(Bench& bench);  // load_cases.cpp
void bench_load(Bench& bench);        // throughput_cases.cpp
void bench_load_singles(Bench& bench);
void bench_load_validators(Bench& bench);
void bench_load_million(Bench& bench);
void bench_questions(Bench& bench);  // rpc_cases.cpp

}  // namespace quern::bench
