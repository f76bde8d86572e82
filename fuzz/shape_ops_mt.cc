// Linked into the targets whose inputs have several threads and stops in ops, and into the mutator that AFL++ loads
// for them.
#include "fuzz/op_input.h"

namespace fuzz {

const OpShape &op_shape = kShapeOpsMt;

}  // namespace fuzz
