#include "spindle.h"
