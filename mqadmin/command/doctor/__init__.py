"""``doctor`` verbs: findings of an examination, with cause and fix."""
