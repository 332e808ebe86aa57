// Runs all tests in one process, because loading jsdom takes longer than most files.
import "./consent.test.mjs";
import "./hot.test.mjs";
import "./list.test.mjs";
import "./lists.test.mjs";
import "./operator.test.mjs";
import "./readers.test.mjs";
import "./shared.test.mjs";
import "./tag.test.mjs";
