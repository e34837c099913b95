/* What tree.c and tree_update.c know of a node's inside; format.h has the picture. Nodes from node_get are sound: no
 * checks. */
#ifndef POOL_TREE_H
#define POOL_TREE_H

#include "internal.h"

#define TREE_LEAF_ITEM_HEAD 18u
#define TREE_INNER_ITEM_BYTES (16u + BP_BYTES)
#define TREE_LEVELS (TREE_LEVEL_MAX + 1)

static inline unsigned node_level(const uint8_t *node)
{
	return node[4];
}
static inline unsigned node_items(const uint8_t *node)
{
	return get_le16(node + 6);
}
static inline uint32_t node_used(const uint8_t *node)
{
	return get_le32(node + 24);
}
static inline struct key item_key(const uint8_t *item)
{
	return (struct key){get_le64(item), get_le64(item + 8)};
}
static inline void item_put_key(uint8_t *item, struct key key)
{
	put_le64(item, key.a);
	put_le64(item + 8, key.b);
}
static inline uint32_t leaf_value_bytes(const uint8_t *item)
{
	return get_le16(item + 16);
}
static inline const uint8_t *leaf_value(const uint8_t *item)
{
	return item + TREE_LEAF_ITEM_HEAD;
}
static inline uint32_t leaf_item_bytes(const uint8_t *item)
{
	return TREE_LEAF_ITEM_HEAD + leaf_value_bytes(item);
}
static inline const uint8_t *inner_item(const uint8_t *node, unsigned i)
{
	return node + NODE_HEAD_BYTES + i * TREE_INNER_ITEM_BYTES;
}
/* The pointer of an inner item, to a node one level below `level`; ERR_CORRUPT. */
int inner_child(const uint8_t *item, uint64_t tree, unsigned level, struct bp *ret, struct error *err);
/* Last item whose key is at or before it; the first one when all are behind. */
unsigned inner_place(const uint8_t *node, struct key key);

#endif
