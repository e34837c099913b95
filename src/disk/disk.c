#include "disk.h"
