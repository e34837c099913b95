#include "result.h"
