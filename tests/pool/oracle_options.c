/* The shapes and plans of the oracle, and how a seed chooses the rest. */
#include <stdio.h>
#include <string.h>

#include "oracle_shape.h"

const char *const oracle_plan_names[ORACLE_PLANS] = {"power", "lose", "vanish", "fault", "rot", "full", "wreck"};

/* disks and groups: name, then kinds with how many disks each */
static const struct shape shapes[] = {
	{"disk", 1, 1, 0, 0},
	{"stripe3", 3, 1, 0, 0},
	{"mirror2", 1, 2, 9, 0},
	{"mirror3", 1, 3, 9, 0},
	{"mirror2x2", 2, 2, 9, 0},
	{"parity1-3", 1, 3, 1, 0},
	{"parity1-5", 1, 5, 1, 0},
	{"parity2-5", 1, 5, 2, 0},
	{"parity3-6", 1, 6, 3, 0},
	{"parity1-3x2", 2, 3, 1, 0},
	{"parity1:3-5", 1, 5, 1, 3},
};
const char *const oracle_shapes[] = {"disk", "stripe3", "mirror2", "mirror3", "mirror2x2", "parity1-3", "parity1-5",
	"parity2-5", "parity3-6", "parity1-3x2", "parity1:3-5", NULL};

void seed_for(struct random *r, uint64_t seed, uint64_t purpose)
{
	random_seed(r, seed * 0x9e3779b97f4a7c15u ^ purpose * 0xd1342543de82ef95u);
}

const struct shape *shape_find(const char *name)
{
	for (size_t i = 0; i < array_count(shapes); i++)
		if (strcmp(shapes[i].name, name) == 0)
			return &shapes[i];
	return &shapes[0];
}

unsigned shape_parity(const struct shape *s)
{
	return s->parity == 9 ? s->kind_disks - 1 : s->parity;
}

bool oracle_plan_fits(const char *shape, enum oracle_plan plan)
{
	return shape_parity(shape_find(shape)) > 0 || plan == ORACLE_POWER || plan == ORACLE_FULL ||
	       plan == ORACLE_FAULT || plan == ORACLE_WRECK;
}

void oracle_options_draw(struct oracle_options *o, uint64_t seed, const char *shape, enum oracle_plan plan)
{
	struct random r;

	*o = (struct oracle_options){.seed = seed, .plan = plan};
	snprintf(o->shape, sizeof o->shape, "%s", shape);
	seed_for(&r, seed, 1);
	o->threads = 1 + (unsigned)random_below(&r, 3);
	o->steps = 6 + (unsigned)random_below(&r, 26);
	o->generations = 2 + (unsigned)random_below(&r, 2);
	o->compression = (unsigned)random_below(&r, 3);
	o->record_bytes = 4096u << random_below(&r, 6);
	o->fault = (enum crash_fault)(1 + random_below(&r, CRASH_FAULTS - 1));
	if (o->fault == CRASH_MEDIA && shape_parity(shape_find(shape)) == 0)
		o->fault = CRASH_EIO_ONCE; /* the only copy is gone: nothing could be asked of the pool */
	o->full = random_below(&r, 50) == 0;
	o->twice = random_below(&r, 50) == 0;
	if (random_below(&r, 4) == 0)
		o->fault = CRASH_EIO_FLUSH;
}

void oracle_options_draw_small(struct oracle_options *o, uint64_t seed, const char *shape, enum oracle_plan plan)
{
	struct random r;

	oracle_options_draw(o, seed, shape, plan);
	seed_for(&r, seed, 4);
	o->threads = random_below(&r, 4) ? 1 : 2;
	o->steps = 4 + (unsigned)random_below(&r, 8);
	o->generations = plan == ORACLE_WRECK ? o->generations : 10;
}

char *oracle_options_text(const struct oracle_options *o, char text[ORACLE_TEXT_BYTES])
{
	snprintf(text, ORACLE_TEXT_BYTES,
		"--seed %llu --shape %s --plan %s --threads %u --steps %u --generations %u --compression %u --record "
		"%u --cut %llu "
		"--fault %u --break %u --lying-flush %d --full %d --twice %d",
		(unsigned long long)o->seed, o->shape, oracle_plan_names[o->plan], o->threads, o->steps, o->generations,
		o->compression, o->record_bytes, (unsigned long long)o->cut, (unsigned)o->fault, o->break_rule,
		o->lying_flush, o->full, o->twice);
	return text;
}
