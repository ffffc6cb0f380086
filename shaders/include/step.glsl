// Everything that changes per token. The layout is written once more in runtime/step.go; a test compares the two.
//   0                              rows, outs, done, steps taken
//   1 + r                          row r: token, sequence, position, place in the prompt
//   1 + STEP_ROWS + s              sequence s: its first row, its number of rows, flags, tokens that the rows add
//   1 + STEP_ROWS + STEP_SEQS + i  the rows whose logits are wanted, four to an element
const uint STEP_ROWS = 512;
const uint STEP_SEQS = 64;
const uint STEP_SETTLES = 1; // flag: evict to the budget at once
const uint STEP_ENDS = 2;    // flag: the prompt ends with these rows

IN_UVEC4(0, Step)

uint step_rows() { return LOAD(Step, 0).x; }
uint step_outs() { return LOAD(Step, 0).y; }
bool step_done() { return LOAD(Step, 0).z != 0; } // an end token was sampled: later steps must change nothing
uvec4 step_row(uint r) { return LOAD(Step, 1 + r); }
uvec4 step_seq(uint s) { return LOAD(Step, 1 + STEP_ROWS + s); }
uint step_out(uint i) { return LOAD(Step, 1 + STEP_ROWS + STEP_SEQS + i / 4)[i % 4]; }
