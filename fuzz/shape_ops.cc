// Linked into the targets whose inputs have one thread and no stops, and into the mutator that AFL++ loads for them.
#include "fuzz/op_input.h"

namespace fuzz {

const OpShape &op_shape = kShapeOps;

}  // namespace fuzz
