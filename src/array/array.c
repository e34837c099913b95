#include "array.h"
